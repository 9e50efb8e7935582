"""Scales: does a column decide nearly all that is expected, do 0/1 rewards leave room for chance, do digits suffice?

And what is large beside them: a gap, and a number of samples, where nobody says which.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rcb_bayes.errors import MarketError
from rcb_bayes.users import Empirical
from rcb_bayes.users.mending import drowning_note

if TYPE_CHECKING:
    from rcb_bayes.market.market import Market

_FARTHEST = 50.0  # of a linear predictor: the chance is 1e-22 there, or 1 less that
_SMALLEST, _MOST_NOISES = 1e-8, 1e8  # of what is expected, by itself and over sigma: beyond, variances are rounding
_LEAST_EPSILON = 1e-9  # of what is expected, or of 1: ties and verdicts have a tolerance of 1e-12 of that


_DRAWS = 2000
_GAP, _MEDIAN_APART = 0.02, 0.954  # of a standard deviation; two normal numbers are so many of them apart
LEAST_SAMPLES, _MOST_SAMPLES, _EVENTS = 50, 2000, 10.0
_STEPS = np.outer(10.0 ** np.arange(-60, 61), [1.0, 2.0, 5.0]).reshape(-1)


class RewardSizes(NamedTuple):
    """What is large beside the rewards of a market.

    Attributes
    ----------
    gap : a fiftieth of the standard deviation of a user's mean reward under the belief, of the arm with the largest
    n_per_arm : samples that tell as much of it as the belief does, or hold ten events; 50 to 2,000
    event_rate : the chance of the rarer of 0 and 1, of the arm with the least; None with other rewards
    """

    gap: float
    n_per_arm: int
    event_rate: float | None


def reward_sizes(market: "Market") -> RewardSizes:
    """The sizes, the first two as 1, 2 or 5 times a power of ten; always by the same draws of belief and users."""
    rng = np.random.default_rng(0)
    beta, sigma = market.prior.draw_arrays(2 * _DRAWS, rng=rng)
    users = market.population.sample(_DRAWS, seed=rng)
    one, other = (market.noise.mean_reward((part @ users[:, :, None])[:, :, 0]) for part in np.split(beta, 2))
    spread = float(np.median(np.abs(one - other), axis=0).max()) / _MEDIAN_APART or 1.0
    chance = one.mean(axis=0)
    rate = None if market.noise.is_gaussian else float(np.minimum(chance, 1.0 - chance).min())
    noise = float(np.median(market.noise.variance(0.0, sigma=sigma))) if rate is None else 0.0
    needed = noise / spread**2 if rate is None else _EVENTS / max(rate, 1e-9)
    n = min(max(needed, LEAST_SAMPLES), _MOST_SAMPLES)
    gap = _STEPS[np.abs(np.log(_STEPS / (_GAP * spread))).argmin()]
    return RewardSizes(float(f"{gap:.0e}"), round(_STEPS[n * (1.0 - 1e-9) <= _STEPS][0]), rate)


def check_digits(market: "Market", *, epsilon: float = 0.0) -> None:
    """Refuse rewards beside which sigma, or epsilon, is lost among the sixteen digits of a number.

    Raises
    ------
    MarketError
        With the column that does most of it. Figures would be rounding, and their Monte Carlo errors 0.
    """
    if not market.noise.is_gaussian:
        return
    users, sizes = market.population, _coefficients(market)
    rows = np.abs(users.rows[users.weights > 0]) if isinstance(users, Empirical) else None
    parts = sizes * (np.sqrt(np.diag(users.second_moment)) if rows is None else rows.max(axis=0))
    scale = float(parts.sum() if rows is None else (rows @ sizes).max())  # no less than the root mean square of any x'b
    sigma = getattr(market.noise, "sigma", None) or scale
    if not 0.0 < scale < np.inf:  # there is nothing to learn, or there are no variances
        return
    is_lost = 0.0 < epsilon < _LEAST_EPSILON * max(scale, 1.0)
    if _SMALLEST <= scale <= _MOST_NOISES * sigma and not is_lost:
        return
    beside = f"epsilon is {epsilon:.2g}" if is_lost else f"sigma {sigma:.2g}"
    raise MarketError(
        f"Under this belief x'b is about {scale:.2g}, mostly by '{market.prior.features[int(parts.argmax())]}', and "
        f"{beside}: too far apart for numbers of sixteen digits. Standardise the columns, give coefficients another "
        "scale, or measure rewards in another unit."
    )


def check_predictors(market: "Market") -> None:
    """Refuse 0/1 rewards of users whose chances are 0 or 1 under nearly all that the belief holds possible.

    Raises
    ------
    MarketError
        With the column that does most of it. Engines would take hours, and their answers mean nothing.
    """
    check_digits(market)
    users = market.covariates
    if market.noise.is_gaussian or not isinstance(users, Empirical) or market.prior.feature_map is not None:
        return
    spread = _coefficients(market)
    typical = float(np.median(np.sqrt((users.rows**2) @ spread**2)))
    if typical > _FARTHEST:
        heaviest = users.features[int(np.argmax(np.sqrt((users.rows**2).mean(axis=0)) * spread))]
        raise MarketError(
            f"Under this belief x'b is beyond {typical:,.0f}, up or down, for half of the users. Rewards are 0/1, so "
            f"that chances are all 0 or 1. '{heaviest}' does most of it. Standardise the columns (standardise=True "
            "where they are read), or give its coefficients a smaller scale."
        )


def scale_note(market: "Market") -> str | None:
    """A line for whoever reads the result; None where columns weigh alike, or users are no table.

    Raw scales (an age in years beside a share) make a belief of equal coefficients one about the largest column.
    """
    users = market.covariates
    if not isinstance(users, Empirical) or market.prior.feature_map is not None:
        return None
    return drowning_note(users.rows, users.features, _coefficients(market))


def _coefficients(market: "Market") -> np.ndarray:
    """Root mean square of each feature's coefficients under the belief, (d,)."""
    moments = market.prior.moments
    variance = np.einsum("kdkd->kd", moments["covariance"].values)
    return np.sqrt((moments["mean"].values ** 2 + variance).mean(axis=0))
