r"""What a designer of 1991 could have believed of the four treatments, before the first patient came.

A reward of 1 is a hundred CD4 cells gained by week 20. Zidovudine was what everybody was given; the others were new.
For features x = (1, z), z standardised, each belief is a PyMC model of beta[arm, feature]:

- sceptical: :math:`\beta_{zdv,1} \sim N(.2, .3^2)`, :math:`\beta_{new,1} \sim N(.05, .4^2)`: what is new is hardly
  better than nothing until it has shown to be;
- enthusiastic: zidovudine :math:`N(.1, .3^2)`, both combinations and didanosine :math:`N(.4, .4^2), N(.3, .4^2),
  N(.25, .4^2)`: the old arm has to be hidden among the new ones;
- hierarchical: zidovudine :math:`N(.2, .3^2)`, :math:`m \sim N(.05, .3^2)`,
  :math:`\beta_{new,1} | m \sim N(m, .2^2)`: news of one new arm is news of all three;
- elicited: quantiles told for six kinds of patients, fitted by ``Prior.from_quantiles``.

All other coefficients are :math:`N(0, .15^2)`, but for the elicited belief, which has its own. Rewards have an sd of
1.2 around their mean: counts of one patient differ by a third from one visit to the next.

For the outcome "event" the same beliefs are read as chances: .3 for a reward of 1, around .65, with an sd of .45.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.schema import FloatArray, no_such
from rcb_bayes.studies.actg.trial import ARMS, FEATURES, Outcome, Trial

if TYPE_CHECKING:
    import pandas as pd

SIGMA = {"cd4": 1.2, "event": 0.45}
_CHANCE, _PER_REWARD = 0.65, 0.3
_OTHERS = 0.15

_SHIFTS: dict[Outcome, tuple[float, float]] = {"cd4": (0.0, 1.0), "event": (_CHANCE, _PER_REWARD)}


def designer_prior(
    belief: str, *, names: tuple[str, ...] = ("intercept", *FEATURES), outcome: Outcome = "cd4"
) -> Prior:
    """One of the beliefs of 1991.

    Parameters
    ----------
    belief : "sceptical", "enthusiastic", "hierarchical" or "elicited"
    names : labels of the features, the first of which is 1 for everybody
    outcome : what rewards are, see ``Trial``

    Raises
    ------
    RcbError
        Another belief; "elicited" with other features than it was asked about.
    """
    if belief not in BELIEFS:
        raise no_such("belief", belief, BELIEFS)
    return BELIEFS[belief](names, outcome)


def designer_market(trial: Trial, belief: str) -> Market:
    """A belief of 1991 with the trial's patients."""
    prior = designer_prior(belief, names=trial.names, outcome=trial.outcome)
    return Market(prior=prior, covariates=trial.users, noise=GaussianNoise(SIGMA[trial.outcome]))


def _independent(name: str, mean: tuple[float, ...], sd: tuple[float, ...]) -> Callable[..., Prior]:
    def made(names: tuple[str, ...], outcome: Outcome) -> Prior:
        import pymc as pm

        shift, scale = _SHIFTS[outcome]
        means, spreads = _arrays(
            names, [shift + scale * value for value in mean], [scale * value for value in sd], scale
        )
        with pm.Model(coords={"arm": list(ARMS), "feature": list(names)}) as model:
            pm.Normal("beta", means, spreads, dims=("arm", "feature"))
        return Prior.from_pymc(model, name=f"actg_{name}")

    return made


def _hierarchical(names: tuple[str, ...], outcome: Outcome) -> Prior:
    import pymc as pm

    shift, scale = _SHIFTS[outcome]
    means, spreads = _arrays(names, [shift + scale * 0.2, shift, shift, shift], [scale * s for s in _SPREADS], scale)
    loading = np.zeros((len(ARMS), len(names)))
    loading[1:, 0] = 1.0  # the three new arms' averages
    with pm.Model(coords={"arm": list(ARMS), "feature": list(names)}) as model:
        shared = pm.Normal("new", scale * 0.05, scale * 0.3)
        pm.Normal("beta", means + loading * shared, spreads, dims=("arm", "feature"))
    return Prior.from_pymc(model, name="actg_hierarchical")


_SPREADS = (0.3, 0.2, 0.2, 0.2)


def _arrays(names: tuple[str, ...], mean: list[float], sd: list[float], scale: float) -> tuple[FloatArray, FloatArray]:
    means, spreads = np.zeros((len(ARMS), len(names))), np.full((len(ARMS), len(names)), scale * _OTHERS)
    means[:, 0], spreads[:, 0] = mean, sd
    return means, spreads


# --- elicited --------------------------------------------------------------------------------------------------------

_KINDS = {
    "typical": {},
    "few cells": {"cd40": -1.5},
    "treated before": {"str2": 0.85},
    "symptoms": {"symptom": 2.2},
    "older": {"age": 1.5},
    "unwell": {"karnof": -1.8},
}
"""Kinds of patients, by what is standardised; all that is not named is average."""

_TOLD: dict[str, dict[str, tuple[float, float]]] = {
    "zdv": {
        "typical": (0.20, 0.35),
        "few cells": (0.30, 0.45),
        "treated before": (-0.05, 0.40),
        "symptoms": (0.10, 0.55),
        "older": (0.15, 0.45),
        "unwell": (0.10, 0.50),
    },
    "zdv_ddi": {
        "typical": (0.25, 0.50),
        "few cells": (0.40, 0.60),
        "treated before": (0.20, 0.55),
        "symptoms": (0.10, 0.70),
        "older": (0.15, 0.60),
        "unwell": (0.00, 0.65),
    },
    "zdv_ddc": {
        "typical": (0.15, 0.50),
        "few cells": (0.25, 0.60),
        "treated before": (0.10, 0.55),
        "symptoms": (0.00, 0.70),
        "older": (0.05, 0.60),
        "unwell": (-0.10, 0.65),
    },
    "ddi": {
        "typical": (0.05, 0.50),
        "few cells": (0.15, 0.60),
        "treated before": (0.15, 0.55),
        "symptoms": (-0.05, 0.70),
        "older": (0.00, 0.60),
        "unwell": (-0.05, 0.65),
    },
}
"""What each arm gives to each kind, in hundreds of cells: the median, and how far off the tenth and ninetieth are."""


def elicited_answers(outcome: Outcome = "cd4") -> "pd.DataFrame":
    """The answers behind the elicited belief: ``q10``, ``q50`` and ``q90`` of each arm for each kind of patient."""
    import pandas as pd

    shift, scale = _SHIFTS[outcome]
    rows = []
    for arm, told in _TOLD.items():
        for kind, (median, reach) in told.items():
            patient = dict.fromkeys(FEATURES, 0.0) | _KINDS[kind]
            levels = {"q10": median - reach, "q50": median, "q90": median + reach}
            rows.append({"arm": arm, **patient, **{name: shift + scale * value for name, value in levels.items()}})
    return pd.DataFrame(rows)


def _elicited(names: tuple[str, ...], outcome: Outcome) -> Prior:
    if names != ("intercept", *FEATURES):
        raise RcbError(
            f"The elicited belief was asked about {', '.join(FEATURES)}, got {', '.join(names[1:])}. Use the trial's "
            "usual features, or another belief."
        )
    asked = elicited_answers(outcome).assign(intercept=1.0)[["arm", *names, "q10", "q50", "q90"]]
    return Prior.from_quantiles(asked, intercept=False, name="actg_elicited")


BELIEFS: dict[str, Callable[[tuple[str, ...], Outcome], Prior]] = {
    "sceptical": _independent("sceptical", (0.2, 0.05, 0.05, 0.05), (0.3, 0.4, 0.4, 0.4)),
    "enthusiastic": _independent("enthusiastic", (0.1, 0.4, 0.3, 0.25), (0.3, 0.4, 0.4, 0.4)),
    "hierarchical": _hierarchical,
    "elicited": _elicited,
}
