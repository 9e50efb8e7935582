"""The ACTG 175 study: a randomised trial, beliefs of its time, RCB and others replayed on it without bias."""

from rcb_bayes.studies.actg.beliefs import BELIEFS, designer_market, designer_prior, elicited_answers
from rcb_bayes.studies.actg.constants import constants_of
from rcb_bayes.studies.actg.experiment import FAST, Sizes, run_actg
from rcb_bayes.studies.actg.judging import greedy_maker, prior_best, rcb_maker, thompson_maker
from rcb_bayes.studies.actg.learned import learned_market
from rcb_bayes.studies.actg.replay import Run, replay_runs, replay_value
from rcb_bayes.studies.actg.result import ActgResult
from rcb_bayes.studies.actg.table import packaged_file
from rcb_bayes.studies.actg.trial import ARMS, Trial, load_actg
from rcb_bayes.studies.actg.values import about_trial, trial_values

__all__ = [
    "ARMS",
    "BELIEFS",
    "FAST",
    "ActgResult",
    "Run",
    "Sizes",
    "Trial",
    "about_trial",
    "constants_of",
    "designer_market",
    "designer_prior",
    "elicited_answers",
    "greedy_maker",
    "learned_market",
    "load_actg",
    "packaged_file",
    "prior_best",
    "rcb_maker",
    "replay_runs",
    "replay_value",
    "run_actg",
    "thompson_maker",
    "trial_values",
]
