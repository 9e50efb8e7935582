"""The warfarin study: patients, real or made up, RCB and others replayed over them, audits by a physician's belief."""

from rcb_bayes.studies.warfarin.beliefs import physician_market
from rcb_bayes.studies.warfarin.cohort import Cohort, load_warfarin
from rcb_bayes.studies.warfarin.dose_oracle import DoseOracle
from rcb_bayes.studies.warfarin.experiment import run_warfarin
from rcb_bayes.studies.warfarin.learned import learn_belief, run_learned
from rcb_bayes.studies.warfarin.plots import (
    plot_confusion,
    plot_fraction_incorrect,
    plot_warfarin_gain,
    plot_warfarin_regret,
)
from rcb_bayes.studies.warfarin.replay import replay, replay_plans
from rcb_bayes.studies.warfarin.result import WarfarinResult
from rcb_bayes.studies.warfarin.synthetic import synthetic_cohort
from rcb_bayes.studies.warfarin.variation import two_way_error

__all__ = [
    "Cohort",
    "DoseOracle",
    "WarfarinResult",
    "learn_belief",
    "load_warfarin",
    "physician_market",
    "plot_confusion",
    "plot_fraction_incorrect",
    "plot_warfarin_gain",
    "plot_warfarin_regret",
    "replay",
    "replay_plans",
    "run_learned",
    "run_warfarin",
    "synthetic_cohort",
    "two_way_error",
]
