"""Studies: the paper's settings, warfarin, and the ACTG 175 trial."""

from rcb_bayes.studies.actg import ActgResult, load_actg, run_actg
from rcb_bayes.studies.paper import Claim, Outcome, Request, reproduce
from rcb_bayes.studies.warfarin import WarfarinResult, load_warfarin, run_warfarin, synthetic_cohort

__all__ = [
    "ActgResult",
    "Claim",
    "Outcome",
    "Request",
    "WarfarinResult",
    "load_actg",
    "load_warfarin",
    "reproduce",
    "run_actg",
    "run_warfarin",
    "synthetic_cohort",
]
