r"""Prior-posterior gaps: does an arm that users dislike have a fighting chance, and how large a one?

Once the arms of B have n samples each, the gap of an unsaturated arm i for user x is

.. math:: G(x, i) = m_i(x) - \max_{j \in B} m_j(x), \qquad m_j(x) = E[\mu(x, j) \mid S_B],

with :math:`m_i` the prior mean when arms are independent. Assumption 1 asks for a :math:`\tau > 0` at which
:math:`\rho(\tau) = \Pr(G \ge \tau)` is positive; plans need :math:`A = E[\max(G, 0)]` and
:math:`\rho_+ = \Pr(G > 0)` as well. All are averages over simulated worlds of the users' belief, each with its Monte
Carlo error.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes._version import __version__
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.posterior import make_engine
from rcb_bayes.progress import track
from rcb_bayes.schema import ARM, FloatArray, as_count, as_finite_array, suggestion
from rcb_bayes.worlds import block_seeds, draw_worlds, simulate_data

if TYPE_CHECKING:
    import xarray as xr

USERS_PER_WORLD = 16
_N_TAUS = 25


def estimate_gaps(
    market: Market,
    *,
    saturated: Sequence[str],
    n_per_arm: int,
    n_worlds: int = 4000,
    taus: ArrayLike | None = None,
    users: ArrayLike | None = None,
    rivals: Literal["saturated", "all"] = "saturated",
    engine: str = "auto",
    seed: int = 0,
) -> "xr.Dataset":
    """Gap probabilities and expected gains of every unsaturated arm.

    Parameters
    ----------
    saturated : labels of the arms with ``n_per_arm`` samples each, B; the others have none
    taus : gaps at which rho is wanted; from the distribution of G unless given
    users : (U, d), adds a ``user`` dimension; None averages over the population
    rivals : "saturated" for Assumption 1's G, "all" for the proof's, over every other arm

    Returns
    -------
    Dataset, dims (arm, tau[, user]), arms the unsaturated ones: ``rho``, ``expected_gain`` (A), ``prob_positive``
    (rho+), ``best_tau`` and ``best_rho`` maximising tau rho, each with its ``_mcse``.

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
    """
    saturated_index = _as_positions(market, saturated)
    as_count(n_per_arm, name="n_per_arm", least=1)
    as_count(n_worlds, name="n_worlds", least=2)
    panel = _as_users(market, users)
    grid = _as_taus(taus)
    if rivals not in ("saturated", "all"):
        raise RcbError(f"rivals must be 'saturated' or 'all', got {rivals!r}.")
    n = np.zeros(market.n_arms)
    n[saturated_index] = n_per_arm
    rewards, attrs = posterior_rewards(market, n_per_arm=n, n_worlds=n_worlds, users=panel, engine=engine, seed=seed)
    unsaturated = [k for k in range(market.n_arms) if k not in saturated_index]
    gaps = np.stack(
        [
            rewards[:, :, i]
            - rewards[:, :, saturated_index if rivals == "saturated" else _others(market, i)].max(axis=2)
            for i in unsaturated
        ],
        axis=2,
    )  # (W, U, arms)
    labels = [market.arms[k] for k in unsaturated]
    attrs |= {"saturated": ", ".join(saturated), "n_per_arm": n_per_arm, "rivals": rivals}
    return _as_dataset(gaps, labels, taus=grid, by_user=users is not None, attrs=attrs)


def estimate_separation(
    market: Market,
    *,
    n_per_arm: int,
    n_worlds: int = 4000,
    taus: ArrayLike | None = None,
    users: ArrayLike | None = None,
    engine: str = "auto",
    seed: int = 0,
) -> "xr.Dataset":
    """The posterior analogue (Assumption 2): the gap of the best posterior mean over the second, n samples of each arm.

    Returns a Dataset as ``estimate_gaps`` does, its only arm being ``best``.
    """
    as_count(n_per_arm, name="n_per_arm", least=1)
    as_count(n_worlds, name="n_worlds", least=2)
    panel, grid = _as_users(market, users), _as_taus(taus)
    n = np.full(market.n_arms, float(n_per_arm))
    rewards, attrs = posterior_rewards(market, n_per_arm=n, n_worlds=n_worlds, users=panel, engine=engine, seed=seed)
    top = np.partition(rewards, -2, axis=2)[:, :, -2:]
    gap = top.max(axis=2) - top.min(axis=2)
    attrs |= {"n_per_arm": n_per_arm}
    return _as_dataset(gap[:, :, None], ["best"], taus=grid, by_user=users is not None, attrs=attrs)


def gap_curve(
    market: Market,
    *,
    n_grid: Sequence[int],
    tau: float,
    floor: float,
    saturated: Sequence[str] | None = None,
    n_worlds: int = 2000,
    engine: str = "auto",
    seed: int = 0,
) -> "xr.Dataset":
    """rho(tau) over the number of samples, and from which n on it stays above a floor (N_P0, or n_P*).

    With ``saturated`` the gaps of Assumption 1, without it the separation of Assumption 2. The attribute ``n_from`` is
    the smallest n of the grid from which on every arm's rho, less two Monte Carlo errors, stays above ``floor``; -1 if
    there is none.
    """
    import xarray as xr

    sizes = sorted({as_count(n, name="n_grid", least=1) for n in n_grid})
    if not sizes:
        raise RcbError("n_grid is empty: give the numbers of samples to look at, such as [5, 20, 100].")
    parts = []
    for n in track(sizes, description="gaps over n"):
        shared: dict[str, Any] = {"n_per_arm": n, "n_worlds": n_worlds, "taus": [tau], "engine": engine, "seed": seed}
        found = (
            estimate_separation(market, **shared)
            if saturated is None
            else estimate_gaps(market, saturated=saturated, **shared)
        )
        parts.append(found[["rho", "rho_mcse"]].isel(tau=0, drop=True))
    curve = xr.concat(parts, dim="n").assign_coords(n=sizes)
    above = ((curve["rho"] - 2.0 * curve["rho_mcse"]) >= floor).all(ARM).values
    stays = np.logical_and.accumulate(above[::-1])[::-1]
    curve.attrs |= {"tau": tau, "floor": floor, "n_from": int(np.array(sizes)[stays][0]) if stays.any() else -1}
    return curve


def posterior_rewards(
    market: Market,
    *,
    n_per_arm: FloatArray,
    n_worlds: int,
    users: FloatArray | None,
    engine: str,
    seed: int,
) -> tuple[FloatArray, dict[str, Any]]:
    """m_j(x) under the users' belief in every world, (W, U, K), and what is to be said about it.

    ``users`` None draws fresh users for every world, so that errors over worlds cover the users too.
    """
    chosen = make_engine(market.prior, market.noise, engine=engine, seed=seed)
    blocks = list(block_seeds(n_worlds, seed=seed))
    parts, unvouched, sent = [], 0, 0
    for size, rng in track(blocks, description="worlds"):
        worlds = draw_worlds(market.prior, size, rng=rng)
        data = simulate_data(worlds, market, n_per_arm=n_per_arm, rng=rng)
        if users is None:
            panel = market.covariates.sample(size * USERS_PER_WORLD, seed=rng).reshape(size, USERS_PER_WORLD, -1)
            batch = chosen.fit(data, users=panel)
        else:
            batch = chosen.fit(data, users=users)
        assert batch.reward is not None  # users were given
        parts.append(batch.reward)
        unvouched += int((~batch.vouched).sum())
        sent += batch.n_sent
    attrs = {
        "belief": market.prior.name,
        "engine": chosen.reason,
        "n_worlds": n_worlds,
        "n_not_vouched": unvouched,
        "n_sent": sent,
        "seed": seed,
        "version": __version__,
    }
    return np.concatenate(parts), attrs


def probability_error(values: FloatArray, *, axis: int = 0) -> FloatArray:
    """Standard error of a mean of indicators (or of averages of them) over worlds; never zero for want of an event."""
    n = values.shape[axis]
    p = values.mean(axis=axis)
    error = values.std(axis=axis, ddof=1) / np.sqrt(n)
    smoothed = (n * p + 0.5) / (n + 1.0)
    return np.where(error > 0, error, np.sqrt(smoothed * (1.0 - smoothed) / n))


def _as_dataset(
    gaps: FloatArray, labels: list[str], *, taus: FloatArray | None, by_user: bool, attrs: dict[str, Any]
) -> "xr.Dataset":
    """Figures from gaps (W, U, arms); averaged over each world's users unless wanted by user."""
    import xarray as xr

    grid = _default_taus(gaps) if taus is None else taus
    reach = (gaps[..., None] >= grid).astype(float)  # (W, U, arms, tau)
    gain = np.maximum(gaps, 0.0)
    positive = (gaps > 0.0).astype(float)
    best = _best(gaps)  # tau by arm
    at_best = (gaps >= best).astype(float)
    if not by_user:
        reach, gain, positive, at_best = (part.mean(axis=1, keepdims=True) for part in (reach, gain, positive, at_best))
    n = len(gaps)
    figures = {
        "rho": ((ARM, "tau"), reach.mean(axis=0), probability_error(reach)),
        "expected_gain": ((ARM,), gain.mean(axis=0), gain.std(axis=0, ddof=1) / np.sqrt(n)),
        "prob_positive": ((ARM,), positive.mean(axis=0), probability_error(positive)),
        "best_rho": ((ARM,), at_best.mean(axis=0), probability_error(at_best)),
    }
    variables: dict[str, Any] = {"best_tau": ((ARM,), best)}
    for name, (dims, value, error) in figures.items():
        for suffix, part in (("", value), ("_mcse", error)):
            # (U, arms[, tau]) -> (arms[, tau], U), without the user axis where it was averaged out
            moved = np.moveaxis(part, 0, -1)
            variables[name + suffix] = ((*dims, "user"), moved) if by_user else (dims, moved[..., 0])
    return xr.Dataset(variables, coords={ARM: labels, "tau": grid}, attrs=attrs)


def _best(gaps: FloatArray) -> FloatArray:
    """For each arm the tau that maximises tau Pr(G >= tau), over the observed gaps; 0 where none is positive."""
    out = np.zeros(gaps.shape[2])
    for arm in range(gaps.shape[2]):
        ordered = np.sort(gaps[:, :, arm].reshape(-1))[::-1]
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        out[arm] = max(ordered[int(np.argmax(ordered * share))], 0.0)
    return out


def _default_taus(gaps: FloatArray) -> FloatArray:
    """A geometric grid over the bulk of the positive gaps; a scale of the gaps where there are none."""
    positive = gaps[gaps > 0]
    if len(positive) < 20:
        scale = float(np.median(np.abs(gaps))) or 1.0
        return np.geomspace(0.01 * scale, scale, _N_TAUS)
    low, high = np.quantile(positive, [0.02, 0.98])
    return np.geomspace(max(low, 1e-3 * high), high, _N_TAUS)


def _as_positions(market: Market, saturated: Sequence[str]) -> list[int]:
    names = [saturated] if isinstance(saturated, str) else [str(name) for name in saturated]
    for name in names:
        if name not in market.arms:
            raise RcbError(
                f"There is no arm '{name}'.{suggestion(name, market.arms)} The arms are {', '.join(market.arms)}."
            )
    if not names:
        raise RcbError("No arm is saturated: name at least one, such as saturated=['" + market.arms[0] + "'].")
    if len(set(names)) == market.n_arms:
        raise RcbError("All arms are saturated, so no gap is left. Use estimate_separation for that stage.")
    return [market.arms.index(name) for name in dict.fromkeys(names)]


def _as_users(market: Market, users: ArrayLike | None) -> FloatArray | None:
    if users is None:
        return None
    panel = as_finite_array(users, name="users", ndim=(1, 2))
    panel = panel[None] if panel.ndim == 1 else panel
    if panel.shape[1] != market.n_features:
        raise DataError(f"users must have {market.n_features} features, got {panel.shape[1]}.")
    return panel


def _as_taus(taus: ArrayLike | None) -> FloatArray | None:
    if taus is None:
        return None
    grid = np.atleast_1d(as_finite_array(taus, name="taus", ndim=(0, 1)))
    if (grid < 0).any():
        raise RcbError(f"taus must be 0 or more, got {grid.min():g}: tau is a gap in favour of the arm.")
    return np.unique(grid)


def _others(market: Market, arm: int) -> list[int]:
    return [k for k in range(market.n_arms) if k != arm]
