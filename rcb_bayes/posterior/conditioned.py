"""A belief given data that everybody has seen: exactly, or from draws of its PyMC model with the data observed."""

from typing import Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.market.noise import Noise
from rcb_bayes.market.samples import Samples, read_samples
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import Components, component_posterior
from rcb_bayes.posterior.observed import posterior_model


def conditioned(prior: Prior, data: Any, *, noise: Noise | None) -> Prior:
    """The belief given samples; see ``Prior.given``."""
    if prior.has_sigma:
        raise BeliefError(
            f"The belief '{prior.name}' is about the noise, too, and a belief made of its posterior would forget that. "
            "Sample rcb.posterior_model(prior, data, noise), and write the belief anew from what it says of sigma."
        )
    if noise is None:
        raise BeliefError(
            "How did these rewards come about? Pass noise=GaussianNoise(sigma) or noise=BernoulliLogit()."
        )
    samples = read_samples(prior, data)
    name = f"{prior.name} given {len(samples.arm):,} samples"
    sigma = getattr(noise, "sigma", None)
    if prior.law is not None and sigma is not None:
        law = conditioned_law(prior.law, samples, sigma=float(sigma))
        return Prior(
            arms=prior.arms,
            features=prior.features,
            groups=prior.groups,
            law=law,
            source=None,
            name=name,
            feature_map=prior.feature_map,
        )
    found = Prior.from_pymc(posterior_model(prior, samples, noise), name=name)
    return Prior(
        arms=prior.arms,
        features=prior.features,
        groups=found.groups,
        law=found.law,
        source=None,
        name=name,
        feature_map=prior.feature_map,
        fit=found.fit,
    )


def conditioned_law(law: GaussianLaw, samples: Samples, *, sigma: float) -> GaussianLaw:
    """The law given samples with Gaussian rewards: each block's components with their posterior weights."""
    data = Statistics.from_rows(samples.x, arm=samples.arm, reward=samples.reward, n_arms=law.n_arms)
    blocks = []
    for block in law.blocks:
        if not np.isin(samples.arm, block.arms).any():
            blocks.append(block)
            continue
        found = component_posterior(Components.of([block]), data, precision=1.0 / sigma**2)
        assert found.covariance is not None  # asked for
        spread = found.covariance[0, 0]
        blocks.append(
            Block(
                arms=block.arms,
                weights=np.exp(found.log_weight[0, 0]),
                means=found.mean[0, 0],
                covariances=0.5 * (spread + spread.swapaxes(1, 2)),
            )
        )
    return GaussianLaw(n_arms=law.n_arms, n_features=law.n_features, blocks=tuple(blocks))
