"""Posterior means by closed forms and sums over a grid, of beliefs of one coefficient an arm.

None of this shares code with the engines: a Gaussian belief by its normal equations, everything else by adding up over
a fine grid of the coefficient, or of the scale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from rcb_bayes.belief import Prior
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise
from rcb_bayes.posterior.data import Data, Rows, Statistics
from rcb_bayes.schema import FloatArray
from rcb_bayes.validation.beliefs import one_scale, two_effects, two_normals
from rcb_bayes.validation.calibrating import BIAS
from rcb_bayes.validation.cases import make_bare, seeded
from rcb_bayes.validation.result import Finding, Planted
from rcb_bayes.validation.worlds import simulate_data

Moments = tuple[FloatArray, FloatArray]  # means and sds, (M, K) of one feature
_SIGMA = 0.5
_CLOSE = 1e-8  # of closed forms
_MOST_BIAS, _MOST_ERROR = 0.05, 0.15  # posterior sd, of engines that sample: their mean, and the root mean square


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """An engine on a belief that has an answer of its own."""

    belief: str
    make: Callable[[], Prior]
    truth: Callable[[Data], Moments]
    noise: Noise = GaussianNoise(_SIGMA)  # noqa: RUF009 (frozen)
    n: int = 4
    n_sets: int = 200
    is_exact: bool = False


def twin_findings(engine: str, root: np.random.SeedSequence) -> list[Finding]:
    """An engine's means against the truth, on average and by their root mean square; none where it has no twin."""
    twin = TWINS.get(engine)
    if twin is None:
        return []
    worlds, own = root.spawn(2)
    prior = twin.make()
    _, data = simulate_data(prior, twin.noise, twin.n, n_sets=twin.n_sets, rng=np.random.default_rng(worlds))
    batch = make_bare(engine, prior, twin.noise, seed=seeded(own)).fit(data)
    mean, sd = twin.truth(data)
    return compare(batch.mean[..., 0], mean, sd, vouched=batch.vouched, part=engine, twin=twin)


def compare(
    found: FloatArray, mean: FloatArray, sd: FloatArray, *, vouched: np.ndarray, part: str, twin: Twin
) -> list[Finding]:
    """Means (M, K) against true ones, where they are vouched for."""
    bias, error = (_CLOSE, _CLOSE) if twin.is_exact else (_MOST_BIAS, _MOST_ERROR)
    off = ((found - mean) / sd)[vouched]
    shifted = abs(float(off.mean()) + BIAS) > bias
    planted = (Planted(name=f"means off by {BIAS:g} sd", p_value=0.0 if shifted else 1.0, beyond=shifted),)
    spread = float(off.mean(axis=1).std(ddof=1) / np.sqrt(len(off)))
    given: dict[str, Any] = {"part": part, "case": twin.belief}
    return [
        Finding(**given, test="twin: mean", estimate=float(off.mean()), mcse=spread, limit=bias, planted=planted),
        Finding(**given, test="twin: error", estimate=float(np.sqrt((off**2).mean())), limit=error),
    ]


# --- truths ----------------------------------------------------------------------------------------------------------


def normal_moments(data: Data) -> Moments:
    """Of N(.2, .25) effects and normal rewards."""
    assert isinstance(data, Statistics)
    precision = 1 / 0.25 + data.xtx[..., 0, 0] / _SIGMA**2
    return (0.2 / 0.25 + data.xty[..., 0] / _SIGMA**2) / precision, precision**-0.5


def student_moments(data: Data) -> Moments:
    """Of Student-t effects and normal rewards, by sums over the effect."""
    assert isinstance(data, Statistics)
    b = np.linspace(-6.0, 6.0, 6001)
    log = stats.t.logpdf(b, 4.0, 0.0, 0.5)
    exponent = data.xty[..., 0, None] * b - 0.5 * data.xtx[..., 0, 0, None] * b**2
    return _moments(b, log + exponent / _SIGMA**2)


def scale_moments(data: Data) -> Moments:
    """Of normal effects with one unknown scale, by sums over the scale."""
    assert isinstance(data, Statistics)
    scale = (np.arange(1500) + 0.5) / 1500 * 3.0
    information = data.xtx[..., 0, 0, None] / _SIGMA**2  # (M, K, 1)
    pull = data.xty[..., 0, None] / _SIGMA**2
    variance = 1.0 / (1.0 / scale**2 + information)
    log = -0.5 * (scale / 0.5) ** 2
    log = log + (0.5 * np.log(variance / scale**2) + 0.5 * variance * pull**2).sum(axis=1)  # (M, S)
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    means = variance * pull
    mean = np.einsum("ms,mks->mk", weight, means)
    square = np.einsum("ms,mks->mk", weight, variance + means**2)
    return mean, np.sqrt(square - mean**2)


def logit_moments(data: Data) -> Moments:
    """Of N(.2, .25) effects and 0/1 rewards, by sums over the effect."""
    assert isinstance(data, Rows)
    b = np.linspace(-3.5, 3.9, 401)  # of a smooth density: the sum is exact to rounding
    eta = data.x[..., 0, None] * b  # (M, n, B)
    log = np.where(data.reward[..., None] > 0, -np.logaddexp(0, -eta), -np.logaddexp(0, eta))
    of_arm = (data.arm[..., None] == np.arange(2)).astype(float)
    return _moments(b, stats.norm.logpdf(b, 0.2, 0.5) + np.einsum("mnb,mnk->mkb", log, of_arm))


def _moments(b: FloatArray, log: FloatArray) -> Moments:
    """Mean and sd of densities (M, K, B) over a grid."""
    weight = np.exp(log - log.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    mean = weight @ b
    return mean, np.sqrt(weight @ b**2 - mean**2)


TWINS = {
    "exact": Twin(belief="two normal effects", make=two_normals, truth=normal_moments, is_exact=True),
    "importance": Twin(belief="two Student-t effects", make=two_effects, truth=student_moments),
    "conditional": Twin(belief="one unknown scale", make=one_scale, truth=scale_moments),
    "gibbs": Twin(belief="two Student-t effects", make=two_effects, truth=student_moments),
    "laplace": Twin(
        belief="two normal effects, 0/1 rewards", make=two_normals, truth=logit_moments, noise=BernoulliLogit(), n=20
    ),
    "nuts": Twin(belief="two normal effects", make=two_normals, truth=normal_moments, n_sets=60),
}
