"""What users got who cannot tell stages apart: rounds of plain worlds pooled, each as often as it came.

Every world adds up, over its rounds in the stages of a pool, the probability of arm i and that times the true lead of i
over j. Their ratio over worlds is what a user expects of arm i who knows that her round is in the pool, and no more.
"""

from collections.abc import Callable, Iterable

import numpy as np

import rcb_bayes as rcb
from tests.twins import plain_mechanism as plain
from tests.twins.truth import FIRST, Row


def pools(out: plain.Outcome, knows: str, *, n_arms: int) -> dict[str, list]:
    """The plain stages behind each view of an audit at some knowledge."""
    label: Callable[[object], str] = {
        "stage": lambda key: str(key),
        "level": lambda key: f"{len(key)} of {n_arms} arms" if isinstance(key, tuple) else str(key),
        "phase": lambda key: "exploitation" if str(key).startswith("epoch") else "cold start",
        "mechanism": lambda key: "any round",
    }[knows]
    found: dict[str, list] = {}
    for key in out.stages:
        found.setdefault(FIRST if label(key) == "mpasc" else label(key), []).append(key)
    return found


def pooled_margin(out: plain.Outcome, keys: Iterable, *, by_rounds: bool = True) -> plain.Expected:
    """E[mu_i - mu_j | i is recommended, the round is in these stages], (U, K, K), with true mean rewards.

    ``by_rounds=False`` is wrong on purpose: every stage of every world counts once, however long it lasts.
    """
    keys = list(keys)
    _, n_users, k = out.stages[keys[0]].p.shape
    top, low = np.zeros((out.n_worlds, n_users, k, k)), np.zeros((out.n_worlds, n_users, k))
    for key in keys:
        stage = out.stages[key]
        rounds = stage.left - stage.entered if by_rounds else np.ones(stage.n_worlds)
        p = rounds[:, None, None] * stage.p
        low[stage.world] += p  # a world is in a stage once
        top[stage.world] += p[..., None] * (stage.mu[..., :, None] - stage.mu[..., None, :])
    batch = np.zeros(out.n_worlds, dtype=int)
    value, error = plain._ratio(top, low[..., None] + np.zeros(k), batch)
    return plain.Expected(value=value, error=error, mass=low.mean(axis=0))


def rows_of(
    found: rcb.Audit, out: plain.Outcome, knows: str, *, by_rounds: bool = True, least_share: float = 0.005
) -> list[Row]:
    """Every cell of an audit at some knowledge beside the plain one; ``out`` watches the audit's users.

    Cells whose arm has less than a share of a pool's recommendations are left out: their errors are not normal.
    """
    rows: list[Row] = []
    for name, keys in pools(out, knows, n_arms=len(found.margins["arm"])).items():
        if name not in found.margins["stage"].values:
            met = sum(out.stages[key].n_worlds for key in keys) / out.n_worlds
            assert met < 0.02, f"{name} is not audited"  # an audit leaves out what a hundredth of runs get to
            continue
        part = found.margins.sel(stage=name)
        value, error = part["estimate"].values, part["mcse"].values  # (user, arm, rival)
        truth = pooled_margin(out, keys, by_rounds=by_rounds)
        share = truth.mass / truth.mass.sum(axis=1, keepdims=True)
        for user, arm in zip(*np.nonzero(share > least_share), strict=True):
            for rival in range(value.shape[2]):
                at = (user, arm, rival)
                if arm != rival and np.isfinite(value[at]):
                    rows.append(
                        Row(
                            scenario=knows,
                            quantity=f"{name}, user {user}, {arm} over {rival}",
                            plain=float(truth.value[at]),
                            plain_error=float(truth.error[at]),
                            package=float(value[at]),
                            package_error=float(error[at]),
                        )
                    )
    return rows
