"""``evaluate``: what a policy would have come to, from a log of another, with intervals.

The formulas, and when their intervals hold, stand at the head of ``evaluation.estimators``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.evaluation.bounded import bounded_interval, kish
from rcb_bayes.evaluation.estimators import Rounds, Value, doubly_robust, steadied, value_of, weighted, within_bounds
from rcb_bayes.evaluation.logged import Logged, as_logged, as_probabilities_of
from rcb_bayes.market import Market
from rcb_bayes.running.heeding import refuse_heeding
from rcb_bayes.running.history import History
from rcb_bayes.running.intervals import Bootstrapped
from rcb_bayes.running.oracle import Oracle, RidgeOracle, checked_scores
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, is_number, suggestion

if TYPE_CHECKING:
    import xarray as xr

ESTIMATORS = ("ips", "snips", "dr", "adaptive", "direct")
"""Names of the estimators, see ``evaluation.estimators``."""

_FIRST_FIT, _GROWTH = 20, 1.5  # rounds after which the regression is fitted first, and how much later it is again


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked for: the regression, the bounds of rewards, the level and the seed."""

    oracle: Oracle | None
    bounds: tuple[float, float] | None
    level: float
    seed: int

    def scaled(self, rewards: FloatArray) -> FloatArray:
        """Rewards in units of their range, above the least of them."""
        if self.bounds is None:
            return rewards
        return (rewards - self.bounds[0]) / (self.bounds[1] - self.bounds[0])

    def expected(self, rewards: FloatArray) -> FloatArray:
        """The same of predictions, none of which is out of bounds."""
        return rewards if self.bounds is None else np.clip(self.scaled(rewards), 0.0, 1.0)


def evaluate(
    log: Any,
    policy: Any,
    market: Market | None = None,
    *,
    estimators: Sequence[str] | None = None,
    oracle: Oracle | None = None,
    stages: str | Sequence[str] | None = None,
    bounds: tuple[float, float] | None = None,
    level: float = 0.05,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """The value of a policy, its mean reward over the users of a log of another policy, however adaptive that was.

    Parameters
    ----------
    log : pandas.DataFrame, str, path-like, Recommender or dict
        As for ``audit_log``: a table or a file with a column for each feature, ``arm``, ``reward`` and propensities,
        ``p_<arm>`` for every arm (sharper) or ``propensity`` of the arm recommended, rounds in their order or with
        ``ticket``; a recommender that keeps a log; or Open Bandit Pipeline's ``bandit_feedback`` (``action``,
        ``reward``, and ``pscore``, ``context``, ``pi_b``, ``n_actions`` if known).
    policy : str, array_like, callable, Policy or Recommender
        What is evaluated, as it stands: the label of an arm that everybody is told; probabilities (n, K); a function of
        users (n, d) -> (n, K); a policy or a recommender, by its present ``recommend_proba``.
    market : Market, optional
        Names of arms and features, for tables; Open Bandit's logs do without.
    estimators : sequence of str, optional
        Some of "ips", "snips", "dr", "adaptive" and "direct"; all unless given.
    oracle : Oracle, optional
        The regression of "dr", "adaptive" and "direct"; ridge regression with an intercept unless given. What users
        believe does not enter unless you give it, ``PosteriorOracle(market.prior, market.noise)``.
    stages : str or sequence of str, optional
        Stages of a recommender's log whose rounds count, such as "exploit"; all unless given. Others are learnt from.
    level : float
        One minus the nominal coverage of the intervals, each by itself.
    seed : int
        Of the bootstrap of "direct".

    Returns
    -------
    xarray.Dataset
        Dim ``estimator``: ``value``, ``mcse`` (its standard error), ``lower``, ``upper`` and ``n_effective``.
        Attributes: ``logged_value`` with ``logged_value_mcse``, what the log itself came to; ``n_rounds``, ``n_used``,
        ``n_missing`` (rounds whose reward did not come); ``note``, what to know of the intervals.

    Raises
    ------
    DataError
        A log without propensities (what remains is named), propensities of zero where the policy has mass, columns
        that are missing.
    RcbError
        An unknown estimator, a table without its market, what is no policy.

    Applicability
    -------------
    Users who come independently, and propensities that are those acted on. Use "adaptive": its interval holds for logs
    of adaptive policies with the propensities of all arms. Those of "ips", "snips" and "dr" are the usual ones, for
    logs whose propensities do not depend on rewards and are not small, and are too short elsewhere. "direct" trusts the
    regression. Rewards that did not come, rounds whose ``counted`` is 0, are left out: they must be missing whoever was
    told what. An arm that the policy tells and no round did has no error but that of "adaptive". In a cold start most
    arms have no chance: take ``stages="exploit"``.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> agent = rcb.Recommender(market, plan, keep_log=1000, seed=1)
    >>> rng = np.random.default_rng(3)
    >>> for x in market.covariates.sample(800, seed=2):
    ...     told = agent.recommend(x)
    ...     mean = x @ ([0.6, 0.2] if told.arm == "old" else [0.2, 0.5])
    ...     agent.observe(mean + 0.3 * rng.normal(), ticket=told.ticket)
    >>> found = rcb.evaluate(agent, "new", stages="exploit")  # what if everybody were told "new"? .35
    >>> sure = found.sel(estimator="adaptive")
    >>> bool(sure["lower"] < 0.35 < sure["upper"]), found.sizes["estimator"]
    (True, 5)
    """
    names = _as_estimators(estimators)
    if not (is_number(level) and 0 < level < 1):
        raise RcbError(f"level is a probability between 0 and 1, got {level!r}.")
    seed = as_count(seed, name="seed")
    refuse_heeding(oracle, name="evaluate")
    logged = as_logged(log, market, stages=stages)
    told = as_probabilities_of(policy, logged)
    came = np.isfinite(logged.reward)
    used = logged.used & came
    if not used.any():
        raise DataError("No round of the log has a reward and is asked for: there is nothing to learn a value from.")
    _check_reach(logged, told, used, names)
    reward = logged.reward[used]
    asked = _Asked(oracle=oracle, bounds=_as_bounds(bounds, reward), level=float(level), seed=seed)
    found = _values(logged, told, used, names, asked)
    values = _as_dataset(found, asked)
    attrs = {
        "policy": policy if isinstance(policy, str) else type(policy).__name__,
        "logged_value": float(reward.mean()),
        "logged_value_mcse": float(reward.std() / np.sqrt(len(reward))),
        "n_rounds": len(logged.arm),
        "n_used": int(used.sum()),
        "n_missing": int((logged.used & ~came).sum()),
        "level": float(level),
        "bounds": "none" if asked.bounds is None else "{:g} to {:g}".format(*asked.bounds),
        "note": _note(logged, names, asked),
        "disagreement": _disagreement(values),
        "seed": seed,
        "version": __version__,
    }
    return values.assign_attrs(attrs)


def _as_dataset(found: dict[str, Value], asked: _Asked) -> "xr.Dataset":
    """Values, errors and intervals as rewards have them, and what they rest on."""
    import xarray as xr

    low, high = asked.bounds or (0.0, 1.0)
    names = ("value", "mcse", "n_effective", "n_events")
    columns = {name: np.array([getattr(one, name) for one in found.values()], dtype=float) for name in names}
    columns["lower"], columns["upper"] = np.array([one.bounds(asked.level) for one in found.values()]).T
    for name in ("value", "lower", "upper"):
        columns[name] = low + (high - low) * columns[name]
    columns["mcse"] = (high - low) * columns["mcse"]
    return xr.Dataset(
        {name: ("estimator", values) for name, values in columns.items()}, coords={"estimator": list(found)}
    )


def _disagreement(values: "xr.Dataset") -> str:
    """Which estimates are outside the narrowest interval of one that weighs rewards; nothing where none is."""
    weighing = values.sel(estimator=[name for name in values["estimator"].values if name != "direct"])
    width = weighing["upper"] - weighing["lower"]
    if not (width > 0).any():
        return ""
    sharp = weighing.isel(estimator=int(width.argmin("estimator")))
    lower, upper = float(sharp["lower"]), float(sharp["upper"])
    outside = [
        f"{name} ({float(value):.4f})"
        for name, value in zip(values["estimator"].values, values["value"].values, strict=True)
        if not (lower <= value <= upper or np.isnan(value))
    ]
    if not outside:
        return ""
    are = "are" if len(outside) > 1 else "is"
    return f"{', '.join(outside)} {are} outside the interval of {sharp['estimator'].item()}, {lower:.4f} to {upper:.4f}"


def _as_bounds(bounds: tuple[float, float] | None, reward: FloatArray) -> tuple[float, float] | None:
    """Bounds of rewards: those given, 0 and 1 where no other reward came, else none."""
    if bounds is None:
        return (0.0, 1.0) if np.isin(reward, (0.0, 1.0)).all() else None
    pair = tuple(bounds) if isinstance(bounds, Sequence) else ()
    if len(pair) != 2 or not all(is_number(end) for end in pair) or not pair[0] < pair[1]:
        raise RcbError(f"bounds are the least and the largest reward that can come, got {bounds!r}.")
    out = reward[(reward < pair[0]) | (reward > pair[1])]
    if len(out):
        raise DataError(f"bounds are {pair[0]:g} to {pair[1]:g}, and the log has a reward of {out[0]:g}.")
    return float(pair[0]), float(pair[1])


def _as_estimators(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ESTIMATORS
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in ESTIMATORS:
            close = suggestion(str(name), ESTIMATORS)
            raise RcbError(f"There is no estimator '{name}'.{close} Use some of {', '.join(ESTIMATORS)}.")
    if not wanted:
        raise RcbError(f"estimators is empty. Use some of {', '.join(ESTIMATORS)}.")
    return wanted


def _check_reach(logged: Logged, told: FloatArray, used: np.ndarray, names: tuple[str, ...]) -> None:
    """Refuse what a log cannot tell, and say what it can."""
    if all(name == "direct" for name in names):
        return
    if logged.propensity is None:
        raise DataError(
            "The log has no propensities. IPS, SNIPS, DR and adaptive weights need them: p_<arm> for every arm, or "
            "propensity. Without them only a regression is left, which nothing vouches for: estimators=['direct']."
        )
    if logged.propensities is None:
        return
    out_of_reach = (told > 0.0) & (logged.propensities <= 0.0) & used[:, None]
    rows = np.flatnonzero(out_of_reach.any(axis=1))
    if len(rows):
        arm = logged.arms[int(np.flatnonzero(out_of_reach[rows[0]])[0])]
        raise DataError(
            f"In {len(rows):,} of {int(used.sum()):,} rounds the policy may recommend an arm that the log never would "
            f"(first in row {rows[0] + 1}, '{arm}'), and no weight makes up for that. Evaluate stages='exploit', or a "
            "policy within the log's reach; estimators=['direct'] trusts a regression instead."
        )


def _note(logged: Logged, names: tuple[str, ...], asked: _Asked) -> str:
    if all(name == "direct" for name in names):
        why = "no propensities: " if logged.propensity is None else ""
        return f"{why}the regression alone, which nothing vouches for"
    if asked.bounds is not None:
        most = "told" if logged.propensities is None else "that a round could have had"
        low, high = asked.bounds
        return f"intervals for rewards from {low:g} to {high:g}, and for weights up to the largest {most}"
    if logged.propensities is None:
        return "propensities of the arms told alone: errors are those seen, too small where an arm was told rarely"
    return "adaptive: errors that the propensities predict, for adaptive logs; ips, snips, dr: for fixed ones"


def _values(
    logged: Logged, told: FloatArray, used: np.ndarray, names: tuple[str, ...], asked: _Asked
) -> dict[str, Value]:
    """Estimates by name, in the order asked for; of rewards within bounds, in units of their range."""
    regression, x = _regression(logged, asked.oracle)
    found: dict[str, Value] = {}
    if any(name != "direct" for name in names):
        assert logged.propensity is not None  # checked
        rounds = Rounds(
            arm=logged.arm[used],
            reward=asked.scaled(logged.reward[used]),
            policy=told[used],
            own=logged.propensity[used],
            propensities=None if logged.propensities is None else logged.propensities[used],
        )
        even = np.ones(int(used.sum()))
        terms = weighted(rounds)
        found = {name: value_of(one, even) for name, one in terms.items()}
        if "dr" in names or "adaptive" in names:
            expected = asked.expected(_expected_before(regression, logged, x)[used])
            h, predicted = steadied(rounds, expected)
            terms |= {"dr": doubly_robust(rounds, expected, even), "adaptive": doubly_robust(rounds, expected, h)}
            found |= {
                "dr": value_of(terms["dr"], even),
                "adaptive": value_of(terms["adaptive"], h, predicted=predicted),
            }
        if asked.bounds is not None:
            for name, own in terms.items():
                ends = bounded_interval(own, rounds.reward, level=asked.level)
                found[name] = within_bounds(found[name], own.weight, rounds.reward, ends, level=asked.level)
    if "direct" in names:
        found["direct"] = _direct(regression, logged, x, told, used, asked)
    return {name: found[name] for name in names}


# --- regressions -----------------------------------------------------------------------------------------------------


def _regression(logged: Logged, oracle: Oracle | None) -> tuple[Oracle, FloatArray]:
    """The regression, and the users as it takes them, (n, d)."""
    if oracle is not None:
        return oracle, logged.x
    return RidgeOracle(penalty=1.0), np.hstack([np.ones((len(logged.x), 1)), logged.x])


def _history(logged: Logged, x: FloatArray, rounds: slice, *, keep_rows: bool) -> History:
    made = History(len(logged.arms), x.shape[1], keep_rows=keep_rows)
    kept = np.arange(len(x))[rounds]
    kept = kept[np.isfinite(logged.reward[kept])]
    made.add(x[kept], logged.arm[kept], logged.reward[kept])
    return made


def _expected_before(regression: Oracle, logged: Logged, x: FloatArray) -> FloatArray:
    """What is expected of every arm in each round by a regression on rounds before it, (n, K)."""
    n = len(x)
    edges = [0]
    while edges[-1] < n:
        edges.append(min(n, max(_FIRST_FIT, int(_GROWTH * edges[-1]))))
    out = np.empty((n, len(logged.arms)))
    for start, stop in pairwise(edges):
        fitted = regression.fit(_history(logged, x, slice(0, start), keep_rows=regression.needs_rows))
        out[start:stop] = checked_scores(fitted, np.ascontiguousarray(x[start:stop].T), arms=logged.arms, at_all=True).T
    return out


def _direct(
    regression: Oracle, logged: Logged, x: FloatArray, told: FloatArray, used: np.ndarray, asked: _Asked
) -> Value:
    """The regression's own value, with its bootstrap's error and that of the users."""
    sure = Bootstrapped(regression, seed=asked.seed)
    fitted = sure.fit(_history(logged, x, slice(None), keep_rows=True))
    users, policy = np.ascontiguousarray(x[used].T), told[used].T
    scores = checked_scores(fitted, users, arms=logged.arms, at_all=True)
    values = (policy * asked.expected(scores)).sum(axis=0)
    replicated = [float((policy * asked.expected(one.scores(users))).sum(axis=0).mean()) for one in fitted.replicates]
    n, m = len(values), sure.n_replicates
    error = np.sqrt(np.var(replicated, ddof=1) + values.var() / n)
    weight = told[used][np.arange(n), logged.arm[used]]
    found = Value(value=float(values.mean()), mcse=float(error), n_effective=kish(weight), degrees=float(min(n, m) - 1))
    if asked.bounds is None:
        return found
    reward = asked.scaled(logged.reward[used])
    return within_bounds(found, weight, reward, found.bounds(asked.level), level=asked.level)
