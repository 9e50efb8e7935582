"""Worlds of a belief: true coefficients, and the data sets that they give."""

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.market.noise import Noise
from rcb_bayes.posterior.data import Data, Rows, Statistics
from rcb_bayes.schema import FloatArray


def simulate_data(
    prior: Prior, noise: Noise, n: int, *, n_sets: int, rng: np.random.Generator
) -> tuple[FloatArray, Data]:
    """Coefficients from the belief (M, K, d), and n rewards of each arm from users on the unit sphere times sqrt d."""
    k, d = prior.n_arms, prior.n_features
    beta, own = prior.draw_arrays(n_sets, rng=rng)
    x = rng.standard_normal((n_sets, k, n, d))
    x *= np.sqrt(d) / np.linalg.norm(x, axis=-1, keepdims=True)
    eta = (x @ beta[..., None])[..., 0]  # (M, K, n)
    sigma = own[:, None, None] if noise.needs_sigma and own is not None else None
    reward = noise.sample(eta, rng=rng, sigma=sigma)
    if not noise.is_gaussian:
        arm = np.tile(np.repeat(np.arange(k), n), (n_sets, 1))
        return beta, Rows(x=x.reshape(n_sets, k * n, d), arm=arm, reward=reward.reshape(n_sets, k * n), n_arms=k)
    return beta, Statistics(
        xtx=x.swapaxes(2, 3) @ x,
        xty=(x.swapaxes(2, 3) @ reward[..., None])[..., 0],
        yty=(reward**2).sum(axis=2),
        n=np.full((n_sets, k), float(n)),
    )
