"""One page for a belief or a run: the question, the answer, and what it rests on."""

from rcb_bayes.reporting.result import Report, ReportSizes
from rcb_bayes.reporting.study import report

__all__ = ["Report", "ReportSizes", "report"]
