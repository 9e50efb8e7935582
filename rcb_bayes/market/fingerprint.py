"""Fingerprints of beliefs, users and noise: the same for the same thing in any process, another for another.

A belief in closed form is told by its means, covariances and weights, a table of users by its rows and weights in
whatever order, other users by their kind and moments; numbers to nine significant digits. A belief without a closed
form is told by draws with a fixed seed, which another version of PyMC may draw otherwise: such fingerprints name the
version, and of two versions nothing can be said.
"""

import hashlib
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block
from rcb_bayes.market.noise import Noise
from rcb_bayes.market.samples import Samples
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Covariates, Empirical

PARTS = ("belief", "platform", "users", "noise")
_DRAWS = 32
_beliefs: "WeakKeyDictionary[Prior, str]" = WeakKeyDictionary()  # drawn once: plans are checked in every world


def of_belief(prior: Prior) -> str:
    """The belief's law; its labels are no part of it.

    Examples
    --------
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25)
    >>> of_belief(prior) == of_belief(rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], [0.25, 0.25], name="again"))
    True
    """
    if prior not in _beliefs:
        _beliefs[prior] = _of_law(prior) if prior.law is not None and not prior.has_sigma else _of_draws(prior)
    return _beliefs[prior]


def of_users(covariates: Covariates) -> str:
    """The population, with rows of a table in any order, and alike rows as one."""
    if isinstance(covariates, Empirical):
        rows, places = np.unique(_rounded(covariates.rows), axis=0, return_inverse=True)
        weights = np.bincount(places.ravel(), weights=covariates.weights, minlength=len(rows))
        return _digest("table", rows, _rounded(weights))
    moments = [np.asarray(part, dtype=float) for part in (covariates.mean, covariates.second_moment)]
    return _digest(type(covariates).__name__, *(_rounded(part) for part in moments))


def of_noise(noise: Noise) -> str:
    """The reward model and, where it is known, its sigma."""
    sigma = getattr(noise, "sigma", None)
    return _digest(noise.name, "from the belief" if sigma is None else _rounded(np.array([sigma])))


def of_samples(samples: Samples) -> str:
    """Users and arms of a private history, in whatever order; plans do not look at its rewards."""
    table = np.column_stack([samples.arm.astype(float), _rounded(samples.x)])
    return _digest("samples", table[np.lexsort(table.T[::-1])])


def differ(one: str, other: str) -> bool:
    """Whether two fingerprints are known to be of different things; one that is empty says nothing."""
    versions = {text.rpartition(":")[0] for text in (one, other)} - {""}
    return bool(one and other) and one != other and len(versions) < 2


def _of_law(prior: Prior) -> str:
    assert prior.law is not None  # as whoever asks knows
    blocks = sorted(prior.law.blocks, key=lambda block: block.arms)
    return _digest("law", *(part for block in blocks for part in _block_parts(block)))


def _block_parts(block: Block) -> list[Any]:
    """What tells a block, its components in an order of their own."""
    parts = [_rounded(part) for part in (block.weights, block.means, block.covariances)]
    order = sorted(range(len(block.weights)), key=lambda c: [part[c].ravel().tolist() for part in parts])
    return [block.arms, *(part[order] for part in parts)]


def _of_draws(prior: Prior) -> str:
    from importlib.metadata import version

    beta, sigma = prior.draw_arrays(_DRAWS, rng=np.random.default_rng(20_240_604))
    parts = [_rounded(beta)] if sigma is None else [_rounded(beta), _rounded(sigma)]
    return f"pymc {version('pymc')}:{_digest('draws', *parts)}"


def _rounded(values: FloatArray) -> FloatArray:
    """Nine significant digits; what is nothing beside the largest is nothing."""
    values = np.asarray(values, dtype=float)
    largest = np.abs(values).max(initial=0.0)
    kept = np.where(np.abs(values) > 1e-13 * largest, values, 0.0)
    with np.errstate(divide="ignore"):
        scale = np.where(kept == 0.0, 0.0, np.floor(np.log10(np.abs(np.where(kept == 0.0, 1.0, kept)))))
    unit = 10.0 ** (scale - 8)
    return np.round(kept / unit) * unit + 0.0  # no negative zero


def _digest(*parts: Any) -> str:
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, np.ndarray):
            part = f"{part.shape} " + " ".join(f"{value:.8e}" for value in part.ravel().tolist())
        found.update(f"{part};".encode())
    return found.hexdigest()
