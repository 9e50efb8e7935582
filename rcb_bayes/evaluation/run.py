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
from rcb_bayes.evaluation.estimators import Rounds, Value, heaviest, steadied, terms_of, value_of, within_bounds
from rcb_bayes.evaluation.logged import Logged, as_logged, as_probabilities_of
from rcb_bayes.market import Market
from rcb_bayes.running.heeding import refuse_heeding
from rcb_bayes.running.history import History
from rcb_bayes.running.intervals import Bootstrapped
from rcb_bayes.running.oracle import Oracle, RidgeOracle, checked_scores
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, as_probability, no_such

if TYPE_CHECKING:
    import xarray as xr

ESTIMATORS = ("ips", "snips", "dr", "adaptive", "direct")
"""Names of the estimators, see ``evaluation.estimators``."""

_FIRST_FIT, _GROWTH = 20, 1.5  # rounds after which the regression is fitted first, and how much later it is again


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    oracle: Oracle | None
    bounded: bool
    level: float
    seed: int


def evaluate(
    log: Any,
    policy: Any,
    market: Market | None = None,
    *,
    estimators: Sequence[str] | None = None,
    oracle: Oracle | None = None,
    stages: str | Sequence[str] | None = None,
    bounded: bool | None = None,
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
    bounded : bool, optional
        Whether rewards lie in [0, 1]; unless said they do where all of the log are 0 or 1. Intervals then are those of
        ``evaluation.bounded``, within [0, 1], for rare events, too.
    level : float
        One minus the nominal coverage of the intervals, each by itself.
    seed : int
        Of the bootstrap of "direct".

    Returns
    -------
    xarray.Dataset
        Dim ``estimator``: ``value``, ``mcse`` (its standard error; where no event was seen, that of its interval),
        ``lower``, ``upper``; ``n_effective``, rounds that carry weight, (sum hw)^2 / sum (hw)^2 (of "direct" w is the
        policy's probability), and ``n_events``, the same of hwy, NaN unless bounded: 272 and 4 for an arm that 272 of
        10,000 rounds told alike, with four clicks.
        Attributes: ``logged_value`` with ``logged_value_mcse``, what the log itself came to; ``n_rounds``, ``n_used``,
        ``n_missing`` (rounds whose reward did not come); ``bounded``; ``note``, what to know of the intervals;
        ``disagreement``, which estimates are outside the narrowest interval, empty where none is.

    Raises
    ------
    DataError
        A log without propensities (what remains is named), propensities of zero where the policy has mass, columns
        that are missing, rewards out of [0, 1] that are said to be in it.
    RcbError
        An unknown estimator, a table without its market, what is no policy.

    Applicability
    -------------
    Users who come independently, and propensities that are those acted on. Use "adaptive": its interval holds for logs
    of adaptive policies with the propensities of all arms. Those of "ips", "snips" and "dr" are the usual ones, for
    logs whose propensities do not depend on rewards and are not small, and are too short elsewhere. "direct" trusts the
    regression. Rewards that did not come, rounds whose ``counted`` is 0, are left out: they must be missing whoever was
    told what. An arm that the policy tells and no round did has no error but that of "adaptive". In a cold start most
    arms have no chance: take ``stages="exploit"``. Bounded rewards have intervals that hold for small propensities and
    adaptive logs, too, for weights up to the largest that a round of the log could have had; an unbiased value may lie
    outside [0, 1], and so outside its interval. "adaptive" is low by some 6 % of its error in logs of 150 rounds of a
    policy that learns, "dr" is not. Where estimates disagree, the regression predicts badly ("dr", "adaptive",
    "direct"), or few rounds carry the weight (``n_effective``).

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
    as_probability(level, name="level")
    seed = as_count(seed, name="seed")
    refuse_heeding(oracle, name="evaluate")
    logged = as_logged(log, market, stages=stages)
    told = as_probabilities_of(policy, logged)
    came = np.isfinite(logged.reward)
    used = logged.used & came
    if not used.any():
        raise DataError("No round of the log has a reward and is asked for: there is nothing to learn a value from.")
    _check_reach(logged, told, used, names, is_exploit=stages == "exploit")
    reward = logged.reward[used]
    asked = _Asked(oracle=oracle, bounded=_are_bounded(reward, bounded), level=float(level), seed=seed)
    found = _values(logged, told, used, names, asked)
    attrs = {
        "policy": policy if isinstance(policy, str) else type(policy).__name__,
        "logged_value": float(reward.mean()),
        "logged_value_mcse": float(reward.std() / np.sqrt(len(reward))),
        "n_rounds": len(logged.arm),
        "n_used": int(used.sum()),
        "n_missing": int((logged.used & ~came).sum()),
        "level": float(level),
        "bounded": int(asked.bounded),
        "note": _note(logged, names, asked),
        "seed": seed,
        "version": __version__,
    }
    return _as_dataset(found, level=asked.level, attrs=attrs)


def _as_dataset(found: dict[str, Value], *, level: float, attrs: dict[str, Any]) -> "xr.Dataset":
    import xarray as xr

    names = ("value", "mcse", "n_effective", "n_events")
    columns = {name: [getattr(one, name) for one in found.values()] for name in names}
    ends = np.array([one.bounds(level) for one in found.values()])
    columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    return xr.Dataset(
        {name: ("estimator", np.asarray(values, dtype=float)) for name, values in columns.items()},
        coords={"estimator": list(found)},
        attrs=attrs | {"disagreement": _disagreement(found, level)},
    )


def _disagreement(found: dict[str, Value], level: float) -> str:
    """Which estimates are outside the narrowest interval of one that weighs rewards; nothing where none is."""
    ends = {name: one.bounds(level) for name, one in found.items() if name != "direct" and np.isfinite(one.mcse)}
    if not ends:
        return ""
    sharp = min(ends, key=lambda name: ends[name][1] - ends[name][0])
    lower, upper = ends[sharp]
    outside = [f"{name} ({one.value:.4f})" for name, one in found.items() if one.value < lower or one.value > upper]
    return f"outside the interval of {sharp}, {lower:.4f} to {upper:.4f}: {', '.join(outside)}" if outside else ""


def _are_bounded(reward: FloatArray, bounded: bool | None) -> bool:
    """Whether rewards are in [0, 1]: as was said, or where no other reward than 0 and 1 came."""
    if bounded is None:
        return bool(np.isin(reward, (0.0, 1.0)).all())
    out = reward[(reward < 0.0) | (reward > 1.0)]
    if bounded and len(out):
        raise DataError(f"bounded=True is for rewards from 0 to 1, and the log has one of {out[0]:g}.")
    return bool(bounded)


def _as_estimators(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ESTIMATORS
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in ESTIMATORS:
            raise no_such("estimator", name, ESTIMATORS, told="Use some of")
    if not wanted:
        raise RcbError(f"estimators is empty. Use some of {', '.join(ESTIMATORS)}.")
    return wanted


def _check_reach(
    logged: Logged, told: FloatArray, used: np.ndarray, names: tuple[str, ...], *, is_exploit: bool
) -> None:
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
        narrower = "" if is_exploit else "stages='exploit', or "
        raise DataError(
            f"In {len(rows):,} of {int(used.sum()):,} rounds the policy may recommend an arm that the log never would "
            f"(first in row {rows[0] + 1}, '{arm}'), and no weight makes up for that. Evaluate {narrower}a "
            "policy within the log's reach; estimators=['direct'] trusts a regression instead."
        )


def _note(logged: Logged, names: tuple[str, ...], asked: _Asked) -> str:
    if all(name == "direct" for name in names):
        why = "no propensities: " if logged.propensity is None else ""
        return f"{why}the regression alone, which nothing vouches for"
    if asked.bounded:
        most = "told" if logged.propensities is None else "that a round could have had"
        return f"intervals for rewards from 0 to 1, and for weights up to the largest {most}"
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
        even = np.ones(int(used.sum()))
        rounds = Rounds(
            arm=logged.arm[used],
            reward=logged.reward[used],
            policy=told[used],
            own=logged.propensity[used],
            propensities=None if logged.propensities is None else logged.propensities[used],
            cut=0.0 * even,
            gift=0.0 * even,
        )
        expected, h, predicted = None, even, 0.0
        if "dr" in names or "adaptive" in names:
            expected = _expected_before(regression, logged, x)[used]
            expected = np.clip(expected, 0.0, 1.0) if asked.bounded else expected
            h, predicted = steadied(rounds, expected)
        most = heaviest(rounds, level=asked.level)
        whole, *ends = (terms_of(own, expected, h) for own in (rounds, *rounds.at_worst(most)))
        for name, terms in whole.items():
            by, error = (h, predicted) if name == "adaptive" else (even, 0.0)
            found[name] = value_of(terms, by, predicted=error)
            if asked.bounded:
                interval = bounded_interval((ends[0][name], ends[1][name]), rounds.reward, level=asked.level)
                found[name] = within_bounds(found[name], terms.weight, rounds.reward, interval, level=asked.level)
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
    values = (policy * checked_scores(fitted, users, arms=logged.arms, at_all=True)).sum(axis=0)
    replicated = [float((policy * one.scores(users)).sum(axis=0).mean()) for one in fitted.replicates]
    n, weight = len(values), told[used, logged.arm[used]]
    error = float(np.sqrt(np.var(replicated, ddof=1) + values.var() / n))
    degrees = float(min(n, sure.n_replicates) - 1)
    found = Value(value=float(values.mean()), mcse=error, n_effective=kish(weight), degrees=degrees)
    if not asked.bounded:
        return found
    return within_bounds(found, weight, logged.reward[used], found.bounds(asked.level), level=asked.level)
