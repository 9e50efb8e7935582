"""Logs as off-policy values need them: from tables, files, recommenders, or Open Bandit Pipeline's dictionaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.calling import takes
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.running.log_tables import as_log, read_log
from rcb_bayes.running.protocol import as_probabilities
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.schema import FloatArray, as_finite_array, default_labels, position_of, shown, suggestion

if TYPE_CHECKING:
    import pandas as pd

_OBP = ("action", "reward")
_AGREE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logged:
    """Rounds in their order.

    Attributes
    ----------
    arms : labels
    people : users' own x, (n, p); ``x`` : the features of the market, (n, d)
    arm : what was recommended, (n,); ``reward`` : what users got, (n,), NaN where none came
    propensities : of every arm, (n, K); ``propensity`` : of the arm recommended, (n,); None where not known
    used : rounds that count towards values, (n,); the others are learnt from
    """

    arms: tuple[str, ...]
    people: FloatArray
    x: FloatArray
    arm: np.ndarray
    reward: FloatArray
    propensities: FloatArray | None
    propensity: FloatArray | None
    used: np.ndarray


def as_logged(log: Any, market: Market | None, *, stages: str | Sequence[str] | None) -> Logged:
    """Any log, checked.

    Raises
    ------
    DataError
        Columns or keys that are missing, values that cannot be, stages that are not there.
    RcbError
        A table without its market.
    """
    if isinstance(log, Mapping):
        if stages is not None:
            raise RcbError("stages are those of a recommender's log; Open Bandit's has none. Leave them out.")
        return _of_obp(log, market)
    if isinstance(log, Recommender):
        log, market = log.log, market or log.market
    if market is None:
        raise RcbError("A table needs its market, for the names of arms and features: evaluate(log, policy, market).")
    table = read_log(log)
    rows = as_log(market, table)
    return Logged(
        arms=tuple(market.arms),
        people=rows.people,
        x=rows.x,
        arm=rows.arm,
        reward=rows.reward,
        propensities=rows.weights if rows.has_propensities else None,
        propensity=rows.propensity,
        used=_of_stages(table, stages),
    )


def as_probabilities_of(policy: Any, logged: Logged) -> FloatArray:
    """What a policy would have told the users of a log, (n, K).

    Raises
    ------
    RcbError
        An arm that is not known, or what is no policy.
    DataError
        Probabilities of another shape, negative, or that do not sum to one.
    """
    n, k = len(logged.arm), len(logged.arms)
    if isinstance(policy, str):
        return np.tile(np.eye(k)[position_of(policy, logged.arms)], (n, 1))
    if isinstance(policy, Recommender):
        found: Any = policy.recommend_proba(logged.people)
    elif callable(getattr(policy, "recommend_proba", None)):
        found = policy.recommend_proba(logged.x)
    elif callable(policy) and takes(policy, 1):
        found = policy(logged.people)
    else:
        found = _as_array(policy)
    found = as_probabilities(found, n_users=n)
    if found.shape[1] != k:
        raise DataError(f"A policy has a probability for each of {k} arms, got {found.shape[1]}.")
    return np.maximum(found, 0.0)


def _as_array(policy: Any) -> FloatArray:
    found: Any
    try:
        found = np.asarray(policy, dtype=float)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim == 3 and found.shape[2] == 1:  # Open Bandit's action_dist, of one position
        found = found[:, :, 0]
    if found.ndim != 2:
        raise RcbError(
            "policy is the label of an arm, a table of probabilities (n, K), a function of users (n, d) -> (n, K), a "
            f"policy or a recommender; got {shown(policy)}."
        )
    return found


def _of_stages(table: "pd.DataFrame", stages: str | Sequence[str] | None) -> np.ndarray:
    if stages is None:
        return np.ones(len(table), dtype=bool)
    wanted = [stages] if isinstance(stages, str) else list(stages)
    if "stage" not in table.columns:
        raise DataError("The log has no column stage, by which some of its rounds could be left out.")
    there = table["stage"].astype(str).to_numpy()
    unknown = [name for name in wanted if name not in set(there.tolist())]
    if unknown:
        known = ", ".join(sorted(set(there.tolist())))
        raise DataError(f"The log has no stage '{unknown[0]}'.{suggestion(unknown[0], tuple(there))} It has {known}.")
    return np.isin(there, wanted)


# --- Open Bandit Pipeline --------------------------------------------------------------------------------------------


def _of_obp(log: Mapping[str, Any], market: Market | None) -> Logged:
    """A ``bandit_feedback`` dictionary: action, reward, and pscore, context, pi_b, n_actions, position if known."""
    missing = [name for name in _OBP if log.get(name) is None]
    if missing:
        raise DataError(f"An Open Bandit log needs the key{'s'[: len(missing) - 1]} {', '.join(missing)}.")
    reward = as_finite_array(log["reward"], name="reward", ndim=1)
    n = len(reward)
    if n < MIN_WORLDS:
        raise DataError(f"The log has {n} rounds, and {MIN_WORLDS} are the least that can be judged.")
    arm = _actions(log, n, market)
    k = market.n_arms if market is not None else int(log.get("n_actions") or arm.max() + 1)
    place = _position_of(log)
    context = log.get("context")
    people = np.zeros((n, 0)) if context is None else _rows_of(context, n, "context")
    propensities = None if log.get("pi_b") is None else _at_position(_rows_of(log["pi_b"], n, "pi_b"), k, place)
    own = None if log.get("pscore") is None else as_finite_array(log["pscore"], name="pscore", ndim=1)
    if own is not None and (len(own) != n or not ((own > 0) & (own <= 1)).all()):
        raise DataError(f"pscore must have a probability above 0 for each of {n} rounds: what was told had a chance.")
    if propensities is not None and own is None:
        own = propensities[np.arange(n), arm]
        if not (own > 0).all():
            row = int(np.flatnonzero(own <= 0)[0])
            raise DataError(f"pi_b gives the action of round {row + 1} no chance: what was told had one.")
    elif propensities is not None and own is not None:
        apart = np.abs(propensities[np.arange(n), arm] - own)
        if apart.max() > _AGREE:
            row = int(np.flatnonzero(apart > _AGREE)[0])
            raise DataError(
                f"pscore and pi_b differ in round {row + 1}: {own[row]:.4g} and {propensities[row, arm[row]]:.4g} for "
                "the action told. Leave out the one that was not acted on."
            )
    return Logged(
        arms=default_labels("arm", k) if market is None else tuple(market.arms),
        people=people,
        x=people if market is None else market.features_of(people),
        arm=arm,
        reward=reward,
        propensities=propensities,
        propensity=own,
        used=np.ones(n, dtype=bool),
    )


def _actions(log: Mapping[str, Any], n: int, market: Market | None) -> np.ndarray:
    values = as_finite_array(log["action"], name="action", ndim=1)
    arm = values.astype(np.int64)
    most = market.n_arms if market is not None else int(log.get("n_actions") or arm.max(initial=0) + 1)
    if len(arm) != n or (arm != values).any() or (arm < 0).any() or (arm >= most).any():
        raise DataError(f"action must have a whole number from 0 to {most - 1} for each of {n} rounds.")
    return arm


def _position_of(log: Mapping[str, Any]) -> int:
    """The one position of a log's rounds, 0 where none is given."""
    position = log.get("position")
    places = np.unique(np.asarray(position)) if position is not None else np.zeros(1, dtype=int)
    if len(places) > 1:
        raise DataError("The log has several positions. Take the rounds of one of them: values are those of one list.")
    return int(places[0])


def _rows_of(values: Any, n: int, name: str) -> FloatArray:
    found = as_finite_array(values, name=name, ndim=(2, 3))
    if len(found) != n:
        raise DataError(f"{name} must have a row for each of {n} rounds, got {len(found)}.")
    return found


def _at_position(values: FloatArray, n_arms: int, place: int) -> FloatArray:
    if values.ndim == 3 and not 0 <= place < values.shape[2]:
        raise DataError(f"pi_b has {values.shape[2]} positions, and the log's rounds are at position {place}.")
    found = values[:, :, place] if values.ndim == 3 else values
    if found.shape[1] != n_arms or (found < 0).any() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6:
        raise DataError(f"pi_b must have probabilities of {n_arms} actions that sum to one in every round.")
    return found
