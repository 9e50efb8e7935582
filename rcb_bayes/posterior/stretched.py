r"""A belief that has loosened: its deviations from the mean stretched, answered by an engine of the belief itself.

Assumption 4 multiplies prior variances by a factor g: a belief moved (``moving``) by the scale :math:`s = \sqrt g`.
"""

import math

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.posterior.engines import make_engine
from rcb_bayes.posterior.moving import MovedEngine
from rcb_bayes.schema import DEFAULT_SEED


class StretchedEngine(MovedEngine):
    """Posteriors under a belief whose variances are multiplied by ``factor``.

    Raises
    ------
    RcbError
        Rewards other than Gaussian with a known sigma.
    """

    def __init__(
        self, prior: Prior, noise: Noise, *, factor: float, engine: str = "auto", seed: int = DEFAULT_SEED
    ) -> None:
        scale = math.sqrt(factor)
        inner = make_engine(prior, GaussianNoise(known_sigma(noise) / scale), engine=engine, seed=seed)
        super().__init__(prior, inner, scale=scale, reason=f"variances times {factor:g}")


def known_sigma(noise: Noise | None) -> float:
    """The noise's standard deviation, which a stretch needs to know.

    Raises
    ------
    RcbError
        Where there is none.
    """
    sigma = getattr(noise, "sigma", None)
    if sigma is None:
        raise RcbError(
            "Inflation stretches a prior, so it needs a posterior oracle and Gaussian rewards with a known sigma. "
            "Use inflation='none'."
        )
    return float(sigma)
