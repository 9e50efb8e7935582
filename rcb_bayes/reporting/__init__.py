"""One page for a belief or a run: the question, the answer, and what it rests on."""

from rcb_bayes.reporting.study import Report, ReportSizes, report

__all__ = ["Report", "ReportSizes", "report"]
