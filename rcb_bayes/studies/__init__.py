"""Studies: the paper's settings, and warfarin."""

from rcb_bayes.studies.paper import Claim, Outcome, Request, reproduce
from rcb_bayes.studies.warfarin import WarfarinResult, load_warfarin, run_warfarin, synthetic_cohort

__all__ = [
    "Claim",
    "Outcome",
    "Request",
    "WarfarinResult",
    "load_warfarin",
    "reproduce",
    "run_warfarin",
    "synthetic_cohort",
]
