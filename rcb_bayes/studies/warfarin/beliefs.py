"""What the physician believes: the medium dose, by default; as the paper has it, and for 0/1 rewards."""

import math
from typing import Literal

import numpy as np

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.schema import as_positive, suggestion
from rcb_bayes.studies.warfarin.cohort import ARMS, MEDIUM, Cohort
from rcb_bayes.studies.warfarin.features import NORM
from rcb_bayes.users import Empirical

PAPER_SIGMA = 0.054
"""The paper's noise: that of doses scaled to [0, 1], far below the sd of a 0/1 reward."""

REWARD_SIGMA = 0.3
"""The sd of a 0/1 reward that is 1 nine times in ten, or one time in ten."""

Rewards = Literal["gaussian", "logit"]
_LOGIT_VARIANCE = 4.0
_LOGIT_EXPECTED = (0.2, 0.6, 0.2)


def physician_market(
    cohort: Cohort, *, variance: float = 0.4, sigma: float = REWARD_SIGMA, rewards: Rewards = "gaussian"
) -> Market:
    """The physician's belief and the cohort's patients as a market.

    Parameters
    ----------
    variance : of each coefficient, on the linear scale (the paper's .4, .6, .8); the smaller, the firmer the opinion
    sigma : sd of a reward around its mean, for "gaussian"
    rewards : "gaussian", the paper's: beta[medium] ~ Normal(0.05, variance), the others Normal(0, variance), rewards
        linear; "logit": rewards are 0 or 1 with probability sigmoid(x'b), an average patient expecting .6 of medium
        and .2 of the others, and every coefficient with variance 4

    Raises
    ------
    RcbError
        Another kind of rewards, a variance or sigma that is not positive.
    """
    for name, value in (("variance", variance), ("sigma", sigma)):
        as_positive(value, name=name)
    if rewards not in ("gaussian", "logit"):
        close = suggestion(str(rewards), ("gaussian", "logit"))
        raise RcbError(f"There are no rewards '{rewards}'.{close} Use gaussian or logit.")
    covariates = Empirical(cohort.features, features=cohort.names)
    if rewards == "logit":
        return Market(prior=_logit_prior(cohort), covariates=covariates, noise=BernoulliLogit())
    prior = load_prior(
        "warfarin_physician", n_features=len(cohort.names), features=list(cohort.names), variance=float(variance)
    )
    return Market(prior=prior, covariates=covariates, noise=GaussianNoise(float(sigma)))


def always_medium(cohort: Cohort) -> np.ndarray:
    """What the physician prescribes, (n,)."""
    return np.full(len(cohort), MEDIUM)


def _logit_prior(cohort: Cohort) -> Prior:
    mean = np.zeros((len(ARMS), len(cohort.names)))
    mean[:, 0] = [NORM * math.log(p / (1.0 - p)) for p in _LOGIT_EXPECTED]  # the intercept's feature is 1/NORM
    return Prior.gaussian(mean, _LOGIT_VARIANCE, arms=ARMS, features=cohort.names)
