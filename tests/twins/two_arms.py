"""Two arms, users who are alike, no exploitation before the horizon: margins of a fixed plan by closed form and grid.

Arm 0 is sampled N times, then arm 1 is explored at rate q among organic rounds. Users and platform may believe
otherwise: worlds are the users', the platform's posterior mean decides which arm is the organic one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Means of both arms, rate, samples and noise; ``platform`` means are those that it goes on with."""

    users: tuple[float, float]
    platform: tuple[float, float]
    rate: float
    n: int
    sigma: float


def gaussian_margins(
    stage: Stage, *, variance: float, platform_variance: float, drawn: float | None = None
) -> list[float]:
    """Margins of the first phase, of arm 1 and of arm 0, arm 0 being N(mean, variance).

    ``drawn``, a planted error: worlds about another mean than users believe in.
    """
    error = stage.sigma**2 / stage.n
    gain, platform_gain = (v / (v + error) for v in (variance, platform_variance))
    spread = np.sqrt(variance + error)
    m0, m1 = stage.users
    threshold = stage.platform[0] + (stage.platform[1] - stage.platform[0]) / platform_gain  # of the average reward
    centre = m0 if drawn is None else drawn
    z = (threshold - centre) / spread
    below = norm.cdf(z)
    lead = (m1 - m0 - gain * (centre - m0)) * below + gain * spread * norm.pdf(z)  # E[1{arm 1 organic}(m1 - m_0)]
    q = stage.rate
    new = (q * (m1 - m0) + (1 - q) * lead) / (q + (1 - q) * below)
    old = (m0 - m1 + lead) / (1 - below)
    return [m0 - m1, new, old]


def grid_margins(stage: Stage, *, density, platform_density, reach: float) -> list[float]:
    """The same for any density of arm 0's coefficient, each about its own belief, by sums over a grid."""
    b = np.linspace(-reach, reach, 2001)
    step = b[1] - b[0]
    y = np.linspace(-reach, reach, 1201)
    likelihood = norm.pdf(y[:, None], b, stage.sigma / np.sqrt(stage.n))

    def posterior(p):
        joint = likelihood * p(b) * step
        mass = joint.sum(axis=1)
        return (joint @ b) / np.maximum(mass, 1e-300), mass

    m, mass = posterior(density)
    platform, _ = posterior(platform_density)
    mass = mass / mass.sum()
    m1 = stage.users[1]
    organic = platform < stage.platform[1]
    below, lead = (mass * organic).sum(), (mass * organic * (m1 - m)).sum()
    m0, q = float(mass @ m), stage.rate
    new = (q * (m1 - m0) + (1 - q) * lead) / (q + (1 - q) * below)
    old = (m0 - m1 + lead) / (1 - below)
    return [m0 - m1, new, old]


def first_failure(margins, epsilon: float, *, base: float, end: float) -> float:
    """Where the lowest margin first meets -epsilon between the base and another amount."""
    room = lambda amount: min(margins(amount)) + epsilon  # noqa: E731
    grid = np.linspace(base, end, 200)
    values = np.array([room(amount) for amount in grid])
    k = int((values < 0).argmax())
    return float(brentq(room, grid[k - 1], grid[k], xtol=1e-10))  # pyright: ignore[reportArgumentType]
