r"""Prior-posterior gaps: does an arm that users dislike have a fighting chance, and how large a one?

Once the arms of B have n samples each, the gap of an unsaturated arm i for user x is

.. math:: G(x, i) = m_i(x) - \max_{j \in B} m_j(x), \qquad m_j(x) = E[\mu(x, j) \mid S_B],

with :math:`m_i` the prior mean when arms are independent. Assumption 1 asks for a :math:`\tau > 0` at which
:math:`\rho(\tau) = \Pr(G \ge \tau)` is positive; plans need :math:`A = E[\max(G, 0)]` and
:math:`\rho_+ = \Pr(G > 0)` as well. All are averages over simulated worlds of the users' belief, each with its Monte
Carlo error.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError, DiagnosticWarning, RcbError
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.schema import (
    ARM,
    DEFAULT_SEED,
    BoolArray,
    FloatArray,
    as_count,
    as_finite_array,
    is_number,
    position_of,
    suggestion,
)
from rcb_bayes.telling.progress import track
from rcb_bayes.telling.wording import percent
from rcb_bayes.users.labelled import Users, as_users
from rcb_bayes.workers import Workers

if TYPE_CHECKING:
    import xarray as xr

Rivals = Literal["saturated", "all"]
RIVALS: tuple[Rivals, ...] = ("saturated", "all")
_N_TAUS = 25
_N_BATCHES = 10
_FEW_EVENTS = 4
_USERS_AT_A_TIME = 250  # of a panel: what bounds the memory


def estimate_gaps(
    market: Market,
    *,
    saturated: Sequence[str],
    n_per_arm: int | None = None,
    n_worlds: int = 4000,
    taus: ArrayLike | None = None,
    users: Users | None = None,
    rivals: Rivals = "saturated",
    engine: str = "auto",
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Gap probabilities and expected gains of every unsaturated arm.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    saturated : sequence of str
        Labels of the arms with ``n_per_arm`` samples each, B; the others have none.
    n_per_arm : int, optional
        N, samples of every saturated arm; by the size of rewards unless given, as in ``check_assumptions``.
    n_worlds : int
        Worlds drawn from the users' belief.
    taus : array_like, optional
        Gaps at which rho is wanted; from the distribution of G unless given.
    users : array_like, optional
        (U, d), adds a ``user`` dimension; None averages over the population.
    rivals : {"saturated", "all"}
        "saturated" for Assumption 1's G, "all" for the proof's, over every other arm.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    workers : None, int, str, Client or Executor
        Who simulates the worlds: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.Dataset
        Dims (arm, tau[, user]), arms the unsaturated ones: ``rho``, ``expected_gain`` (A), ``prob_positive`` (rho+),
        ``best_tau`` and ``best_rho`` maximising tau rho, each with its ``_mcse``. With 0/1 rewards the attribute
        ``n_events`` says how many of the rarer outcome the samples of an arm are expected to hold.

    Raises
    ------
    RcbError
        Unknown or no saturated arms, all arms saturated, n below 1, negative or non-finite tau.
    DataError
        Users of the wrong width.

    Applicability
    -------------
    Samples of the saturated arms are taken from the whole population. A mechanism that samples an arm only where it
    was promoted covers fewer directions; rates are computed from the mechanism's own designs.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> gaps = rcb.estimate_gaps(market, saturated=["old"], n_per_arm=10, taus=[0.05, 0.2], seed=1)
    >>> gaps["rho"].sel(arm="new").values.round(2)
    array([0.29, 0.16])
    >>> round(gaps["rho_mcse"].max().item(), 3)
    0.006
    """
    as_positions(market, saturated)  # refused before an engine is made
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=n_worlds, engine=engine, workers=workers, seed=seed)
    found = gaps_at(stages, saturated, taus=taus, users=users, rivals=rivals)
    _warn_of(stages)
    return found


def _warn_of(stages: Stages) -> None:
    """Say that figures rest on posteriors that no engine vouches for: nobody reads attributes."""
    if stages.n_not_vouched:
        warnings.warn(
            f"{stages.n_not_vouched:,} of {stages.n_fitted:,} posteriors behind these gaps are not vouched for "
            f"({percent(stages.n_not_vouched / stages.n_fitted)}), nor are the gaps then. Use engine='nuts'.",
            DiagnosticWarning,
            stacklevel=3,
        )


def estimate_separation(
    market: Market,
    *,
    n_per_arm: int,
    n_worlds: int = 4000,
    taus: ArrayLike | None = None,
    users: Users | None = None,
    engine: str = "auto",
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """The posterior analogue (Assumption 2): the gap of the best posterior mean over the second, n samples of each arm.

    Returns a Dataset as ``estimate_gaps`` does, its only arm being ``best``.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> from rcb_bayes.gaps.estimation import estimate_separation
    >>> separation = estimate_separation(market, n_per_arm=10, taus=[0.05], seed=1)
    >>> separation["rho"].sel(arm="best").values.round(2)
    array([0.9])
    """
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=n_worlds, engine=engine, workers=workers, seed=seed)
    panel, grid = _as_users(market, users), _as_taus(taus)

    def values(some: FloatArray | None) -> FloatArray:
        return separation_values(stages, users=some)[None]

    found = _by_chunks(values, panel, ["best"], taus=grid).assign_attrs(stages.attrs())
    _warn_of(stages)
    return found


def gap_curve(
    market: Market,
    *,
    n_grid: Sequence[int],
    tau: float,
    floor: float,
    saturated: Sequence[str] | None = None,
    n_worlds: int = 2000,
    engine: str = "auto",
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """rho(tau) over the number of samples, and from which n on it stays above a floor (N_P0, or n_P*).

    With ``saturated`` the gaps of Assumption 1, without it the separation of Assumption 2. The attribute ``n_from`` is
    the smallest n of the grid from which on every arm's rho, less two Monte Carlo errors, stays above ``floor``; -1 if
    there is none.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_grid : sequence of int
        Numbers of samples of every saturated arm, increasing.
    tau : float
        The gap.
    floor : float
        The probability that rho is to reach.
    saturated : sequence of str, optional
        Labels of the arms that have their samples; None: how far the best arm leads once all have.
    n_worlds : int
        Worlds drawn from the users' belief.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    workers : None, int, str, Client or Executor
        Who simulates the worlds: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    RcbError
        An empty grid, n below 1, a negative or non-finite tau, a floor that is no probability, unknown arms.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> curve = rcb.gap_curve(market, n_grid=[1, 10, 100], tau=0.2, floor=0.1, saturated=["old"], seed=1)
    >>> curve["rho"].sel(arm="new").values.round(2)
    array([0.08, 0.16, 0.17])
    >>> curve.attrs["n_from"]
    10
    """
    import xarray as xr

    sizes = sorted({as_count(n, name="n_grid", least=1) for n in n_grid})
    if not sizes:
        raise RcbError("n_grid is empty: give the numbers of samples to look at, such as [5, 20, 100].")
    if not (is_number(floor) and 0 < floor <= 1):
        raise RcbError(f"floor is a probability above 0 and at most 1, got {floor}.")
    parts = []
    for n in track(sizes, description="gaps over n"):
        shared: dict[str, Any] = {"n_per_arm": n, "n_worlds": n_worlds, "taus": [tau], "engine": engine, "seed": seed}
        shared["workers"] = workers
        found = (
            estimate_separation(market, **shared)
            if saturated is None
            else estimate_gaps(market, saturated=saturated, **shared)
        )
        parts.append(found[["rho", "rho_mcse"]].isel(tau=0, drop=True))
    curve = xr.concat(parts, dim="n").assign_coords(n=sizes)
    above = ((curve["rho"] - 2.0 * curve["rho_mcse"]) >= floor).all(ARM).values
    stays = np.logical_and.accumulate(above[::-1])[::-1]
    n_from = int(np.array(sizes)[stays][0]) if stays.any() else -1
    of_all = {name: sum(part.attrs[name] for part in parts) for name in ("n_not_vouched", "n_sent")}
    kept = {name: value for name, value in parts[0].attrs.items() if name != "n_per_arm"}
    curve.attrs = kept | of_all | {"tau": tau, "floor": floor, "n_from": n_from}
    return curve


def gaps_at(
    stages: Stages,
    saturated: Sequence[str],
    *,
    taus: ArrayLike | None = None,
    users: Users | None = None,
    rivals: Rivals = "saturated",
) -> "xr.Dataset":
    """``estimate_gaps`` at one of several stages that share their simulations."""
    market = stages.market
    positions = as_positions(market, saturated)
    panel, grid = _as_users(market, users), _as_taus(taus)
    if rivals not in RIVALS:
        raise RcbError(f"rivals must be 'saturated' or 'all', got {rivals!r}.{suggestion(str(rivals), RIVALS)}")

    def values(some: FloatArray | None) -> FloatArray:
        return gap_values(stages, positions, users=some, rivals=rivals)

    labels = [market.arms[k] for k in range(market.n_arms) if k not in positions]
    names = ", ".join(market.arms[k] for k in positions)
    found = _by_chunks(values, panel, labels, taus=grid)
    return found.assign_attrs(stages.attrs() | {"saturated": names, "rivals": rivals})


def gap_values(
    stages: Stages, saturated: Sequence[int], *, users: FloatArray | None = None, rivals: Rivals = "saturated"
) -> FloatArray:
    """G of every unsaturated arm, for every user, in every world, (arms, U, W)."""
    rewards = stages.rewards(saturated, users=users)
    every = range(stages.market.n_arms)
    gaps = []
    for arm in (k for k in every if k not in saturated):
        others = list(saturated) if rivals == "saturated" else [k for k in every if k != arm]
        gaps.append(rewards[arm] - rewards[others].max(axis=0))
    return np.stack(gaps)


def separation_values(stages: Stages, *, users: FloatArray | None = None) -> FloatArray:
    """Lead of the best posterior mean over the second once all arms are saturated, (U, W)."""
    rewards = stages.rewards(range(stages.market.n_arms), users=users)
    second, best = np.partition(rewards, -2, axis=0)[-2:]
    return best - second


def best_gap(gaps: FloatArray) -> tuple[float, float, float, float]:
    """tau, its error, rho and its error, maximising tau rho, of the arm for which that is least; gaps (arms, U, W)."""
    tau, tau_error, rho, rho_error = (part[:, 0] for part in _best(gaps, by_user=False))
    worst = int((tau * rho).argmin())
    return float(tau[worst]), float(tau_error[worst]), float(rho[worst]), float(rho_error[worst])


def mean_error(values: FloatArray, *, scale: FloatArray | float) -> FloatArray:
    """Standard error of the mean of non-negative values over worlds, the last axis; never zero for want of events.

    With fewer than four worlds in which the value is not zero the sample's own spread says little. The error is then
    that of four such worlds: 2/n times the root mean square of those there are, or times ``scale`` if there are none
    (three such errors are a 99.8 % upper bound if nothing was seen).
    """
    n = values.shape[-1]
    error = values.std(axis=-1, ddof=1) / np.sqrt(n)
    n_events = (values != 0).sum(axis=-1)
    size = np.sqrt((values**2).sum(axis=-1) / np.maximum(n_events, 1))
    floor = 2.0 / n * np.where(n_events > 0, size, scale)
    return np.where(n_events < _FEW_EVENTS, np.maximum(error, floor), error)


def probability_error(values: FloatArray) -> FloatArray:
    """Standard error of a mean of indicators, or of each world's share of them; never zero for want of an event."""
    return np.maximum(mean_error(values, scale=1.0), mean_error(1.0 - values, scale=1.0))


def as_positions(market: Market, saturated: Sequence[str]) -> list[int]:
    """Positions of the saturated arms; refuses none, all, and arms that do not exist."""
    names = [saturated] if isinstance(saturated, str) else [str(name) for name in saturated]
    positions = list(dict.fromkeys(position_of(name, market.arms) for name in names))
    if not positions:
        raise RcbError("No arm is saturated: name at least one, such as saturated=['" + market.arms[0] + "'].")
    if len(positions) == market.n_arms:
        raise RcbError("All arms are saturated, so no gap is left. Use estimate_separation for that stage.")
    return positions


def _by_chunks(
    values: Callable[[FloatArray | None], FloatArray],
    panel: FloatArray | None,
    labels: list[str],
    *,
    taus: FloatArray | None,
) -> "xr.Dataset":
    """Figures of a panel's gaps, some users at a time; the grid of tau, unless given, is that of the first ones."""
    import xarray as xr

    if panel is None:
        gaps = values(None)
        return _as_dataset(gaps, labels, taus=_default_taus(gaps) if taus is None else taus, by_user=False)
    parts: list[xr.Dataset] = []
    for start in range(0, len(panel), _USERS_AT_A_TIME):
        gaps = values(panel[start : start + _USERS_AT_A_TIME])
        taus = _default_taus(gaps) if taus is None else taus
        parts.append(_as_dataset(gaps, labels, taus=taus, by_user=True))
    return xr.concat(parts, dim="user")


def _as_dataset(gaps: FloatArray, labels: list[str], *, taus: FloatArray, by_user: bool) -> "xr.Dataset":
    """Figures from gaps (arms, U, W); averaged over each world's users unless wanted by user."""
    import xarray as xr

    def over_users(part: FloatArray) -> FloatArray:
        return part if by_user else part.mean(axis=1, keepdims=True)

    def chance(event: BoolArray) -> tuple[FloatArray, FloatArray]:
        share = over_users(event.astype(float))
        return share.mean(axis=2), probability_error(share)

    gain = over_users(np.maximum(gaps, 0.0))
    tau, tau_error, rho, rho_error = _best(gaps, by_user=by_user)  # (arms, U), U = 1 where users are averaged
    reach = [chance(gaps >= tau) for tau in taus]
    figures = {
        "rho": tuple(np.stack(part, axis=1) for part in zip(*reach, strict=True)),
        "expected_gain": (gain.mean(axis=2), mean_error(gain, scale=over_users(gaps).std(axis=2, ddof=1))),
        "prob_positive": chance(gaps > 0.0),
        "best_tau": (tau, tau_error),
        "best_rho": (rho, rho_error),
    }
    variables: dict[str, Any] = {}
    for name, pair in figures.items():
        dims = (ARM, "tau") if name == "rho" else (ARM,)
        for suffix, part in zip(("", "_mcse"), pair, strict=True):
            variables[name + suffix] = ((*dims, "user"), part) if by_user else (dims, part[..., 0])
    return xr.Dataset(variables, coords={ARM: labels, "tau": taus})


def _best(gaps: FloatArray, *, by_user: bool) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The tau that maximises tau rho, rho = Pr(G >= tau), both with errors, by user or for all: (arms, U) each.

    The objective is a step function, so its maximiser settles at the rate n^(-1/3), for which neither the delta method
    nor the bootstrap holds: the error is the spread over batches of worlds, scaled at that rate. So is that of rho,
    which moves with tau; it is no less than with tau known.
    """

    def best(some: FloatArray) -> tuple[FloatArray, FloatArray]:
        tau = best_tau(some, by_user=by_user)
        share = (some >= tau[:, :, None]).astype(float)
        return tau, share if by_user else share.mean(axis=1, keepdims=True)

    batches = [best(part) for part in np.array_split(gaps, min(_N_BATCHES, gaps.shape[2]), axis=2)]
    scale = len(batches) ** (-1 / 3)
    tau_error = scale * np.std([tau for tau, _ in batches], axis=0, ddof=1)
    rho_error = scale * np.std([share.mean(axis=2) for _, share in batches], axis=0, ddof=1)
    tau, share = best(gaps)
    return tau, tau_error, share.mean(axis=2), np.maximum(rho_error, probability_error(share))


def best_tau(gaps: FloatArray, *, by_user: bool) -> FloatArray:
    """The observed gap that maximises tau times the share of gaps at or above it; 0 where none is positive."""
    pooled = gaps if by_user else gaps.reshape(len(gaps), 1, -1)
    ordered = -np.sort(-pooled, axis=2)
    n = ordered.shape[2]
    at = (ordered * (np.arange(1, n + 1) / n)).argmax(axis=2)
    return np.maximum(np.take_along_axis(ordered, at[:, :, None], axis=2)[:, :, 0], 0.0)


def _default_taus(gaps: FloatArray) -> FloatArray:
    """A geometric grid over the bulk of the positive gaps; a scale of the gaps where there are none."""
    positive = gaps[gaps > 0]
    if len(positive) < 20:
        scale = float(np.median(np.abs(gaps))) or 1.0
        return np.geomspace(0.01 * scale, scale, _N_TAUS)
    low, high = np.quantile(positive, [0.02, 0.98])
    return np.geomspace(max(low, 1e-3 * high), high, _N_TAUS)


def _as_users(market: Market, users: Users | None) -> FloatArray | None:
    if users is None:
        return None
    panel = np.atleast_2d(as_users(users, features=market.features, name="users", also=market.covariates.features))
    if not len(panel):
        raise DataError("users is empty: give one row per user, or None to average over the population.")
    return market.features_of(panel)


def _as_taus(taus: ArrayLike | None) -> FloatArray | None:
    if taus is None:
        return None
    grid = np.atleast_1d(as_finite_array(taus, name="taus", ndim=(0, 1)))
    if not len(grid):
        raise RcbError("taus is empty: give the gaps at which rho is wanted, or None for a grid.")
    if (grid < 0).any():
        raise RcbError(f"taus must be 0 or more, got {grid.min():g}: tau is a gap in favour of the arm.")
    return np.unique(grid)
