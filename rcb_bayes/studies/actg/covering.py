"""Do intervals hold? Random halves of the trial, and the value over all of its patients.

Both are looked at with the finite-population correction of ``values``: a half is a sample without return. Of the two
parts of a learning policy's error, see ``replay``, it is that of the patients that is corrected:

.. math:: se^2 = (1 - n/N) se_{patients}^2 + se_{orders}^2.
"""

from collections.abc import Sequence

import numpy as np

from rcb_bayes.evaluation import evaluate
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.studies.actg.beliefs import designer_market
from rcb_bayes.studies.actg.judging import Part, Row, fixed_policies, greedy_maker, prior_best, thompson_maker
from rcb_bayes.studies.actg.replay import replay_runs, replay_value
from rcb_bayes.studies.actg.trial import Trial
from rcb_bayes.studies.actg.values import FIXED_LOG, about_trial, trial_values

LEARNING_ROUNDS = 200
"""Patients of a run in a half, of which a replay keeps some 267."""
_ORDERS, _WHOLE_ORDERS = 6, 400
_LEVEL = 0.05
LEARNING: dict[str, PolicyMaker] = {"greedy": greedy_maker, "Thompson": thompson_maker}


def fixed_coverage(trial: Trial, start: int, stop: int, *, seed: int) -> Part:
    """Halves ``start`` to ``stop``: whether intervals of fixed policies cover the value over all patients.

    Returns
    -------
    Rows of ``coverage``: ``policy``, ``method``, ``n`` halves, ``held`` with the correction, ``held_uncorrected``
    without it.
    """
    market = designer_market(trial, "sceptical")
    policies = fixed_policies(trial) | {"belief alone": prior_best(market, trial)}
    whole = {name: trial_values(trial, told, market, seed=seed) for name, told in policies.items()}
    found = {(name, method): np.zeros(2, dtype=int) for name in policies for method in FIXED_LOG}
    for k in range(start, stop):
        index = _half(trial, k, seed)
        half = trial.part(index)
        log = half.log()
        for name, told in policies.items():
            plain = evaluate(log, told[index], market, estimators=FIXED_LOG, seed=seed)
            corrected = about_trial(plain, n=len(half), n_all=len(trial))
            for method in FIXED_LOG:
                truth = float(whole[name]["value"].sel(estimator=method))
                for j, one in enumerate((corrected, plain)):
                    own = one.sel(estimator=method)
                    found[name, method][j] += bool(own["lower"] <= truth <= own["upper"])
    return {"coverage": [_row(name, method, stop - start, *held) for (name, method), held in found.items()]}


def learning_coverage(trial: Trial, start: int, stop: int, *, names: Sequence[str] = (), seed: int) -> Part:
    """The same of learning policies, by replay: greedy and Thompson of the sceptical belief, their first patients."""
    market = designer_market(trial, "sceptical")
    rows = []
    for name in names or tuple(LEARNING):
        maker = LEARNING[name]
        whole = replay_runs(trial, maker, market, n_orders=_WHOLE_ORDERS, seed=seed)
        truth = replay_value(trial, whole, n_rounds=LEARNING_ROUNDS).value
        held = np.zeros(2, dtype=int)
        for k in range(start, stop):
            half = trial.part(_half(trial, k, seed))
            runs = replay_runs(half, maker, market, n_orders=_ORDERS, seed=seed + 1 + k)
            found = replay_value(half, runs, n_rounds=LEARNING_ROUNDS)
            for j, share in enumerate((1.0 - len(half) / len(trial), 1.0)):
                lower, upper = found.bounds(_LEVEL, share=share)
                held[j] += bool(lower <= truth <= upper)
        rows.append(_row(name, "replay", stop - start, *held))
    return {"coverage": rows}


def _half(trial: Trial, k: int, seed: int) -> np.ndarray:
    """Positions of the k-th random half."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, k]))
    return np.sort(rng.permutation(len(trial))[: len(trial) // 2])


def _row(name: str, method: str, n: int, held: int, uncorrected: int) -> Row:
    return {"policy": name, "method": method, "n": n, "held": int(held), "held_uncorrected": int(uncorrected)}
