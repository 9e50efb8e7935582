r"""Nonlinear means: what arms give a few users, the anchors, and how everybody else's mean follows from theirs.

A mean :math:`\mu(x)_a` that is no sum of functions of x times functions of the latents z (a neural net, a product of
latents) has no coefficients. It has values, though. With anchors :math:`x_1, \dots, x_m` among the users,

.. math:: \mu(x)_a = \sum_b \phi_b(x)\, \mu(x_b)_a + r(x)_a, \qquad \beta_{ab} = \mu(x_b)_a,

where :math:`\phi(x)` are the weights with the least mean square of r over the belief, for all arms at once. So
coefficients are what arms give the anchors, a function of z that posteriors are sampled by, and features are weights
that any user can be asked for. Anchors are taken greedily, where r is largest, until it is a thousandth of the mean's
own spread; what is left of it is measured on draws of their own. An anchor's own weights are 1 for herself, 0 for the
others: among as many users as anchors nothing is left.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from rcb_bayes.belief.draws import compile_draws, light_mode
from rcb_bayes.belief.graph import Graph, drawn_behind, without_compiler
from rcb_bayes.belief.rewriting import substitute
from rcb_bayes.errors import BeliefWarning
from rcb_bayes.schema import FloatArray

TOLERANCE, SHARP_TOLERANCE = 1e-3, 1e-4  # of the mean's spread; for a posterior, which is narrower than its prior
_MOST_ANCHORS = 64
_MOST_USERS = 1024
_N_DRAWS = 512
_DRAWS_PER_ANCHOR = 8
_BLOCK = 128


class NoAnchorsError(Exception):
    """The mean of the users is not finite, or the same in every draw."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expansion:
    """How a nonlinear mean is told by its values at anchors.

    Attributes
    ----------
    anchors : the users whose means are the coefficients, (m, p)
    error : the largest root mean square of what is left, of any arm for any user it was read for, in units of the
        mean's spread
    weights : from a user's x to the weights of the anchors
    largest_error, told_error : beyond which it is refused, and warned of
    """

    anchors: FloatArray
    error: float
    weights: "AnchorWeights"
    largest_error: ClassVar[float] = 0.05
    told_error: ClassVar[float] = 0.01

    def error_for(self, users: FloatArray) -> float:
        """The same for other users, (n, p)."""
        return left_over(self.weights, users)

    def describe(self) -> str:
        """The expansion in a few words."""
        return f"nonlinear, told at {len(self.anchors)} users (error {self.error:.1g} of its spread)"


class MeanFunction:
    """The mean of users (n, p) at given draws of the latents, (S, n, K); compiled when first asked.

    Parameters
    ----------
    mu : the mean (n, K), a graph of x and of random variables
    x : its free input
    """

    def __init__(self, mu: Any, x: Any) -> None:
        self._mu, self._x = mu, x
        self._latents = drawn_behind([mu])
        self._run: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_run": None}

    def draw(self, n: int, *, seed: int) -> list[np.ndarray]:
        """n joint draws of the latents, always the same ones."""
        return compile_draws(self._latents, graph=Graph())(n, np.random.default_rng(seed))

    def __call__(self, users: FloatArray, latents: Sequence[np.ndarray]) -> FloatArray:
        """Means, (S, n, K); a user's are the same to the last bit whoever else is asked for."""
        if self._run is None:
            self._run = self._compiled()
        with without_compiler(), np.errstate(all="ignore"):
            parts = [np.asarray(self._run(block, *latents), dtype=float) for block in blocks_of(users)]
        return np.concatenate(parts, axis=1)[:, : len(users)]

    def _compiled(self) -> Any:
        batched = [
            pt.tensor(f"latent_{k}", shape=(None, *one.type.shape), dtype=one.type.dtype)
            for k, one in enumerate(self._latents)
        ]
        found: Any = vectorize_graph([self._mu], replace=dict(zip(self._latents, batched, strict=True)))
        with without_compiler():
            return pytensor.function([self._x, *batched], found[0], mode=light_mode(), on_unused_input="ignore")


@dataclass(frozen=True, slots=True, eq=False)
class AnchorWeights:
    """The features of users, (n, p) -> (n, m): least-squares weights of the anchors' means, over draws and arms.

    Attributes
    ----------
    mean : the mean at given latents
    latents : the draws that weights are fitted to
    at_anchors, solve : means of the anchors at these draws, and from anybody's to weights, each (S K, m)
    limit : what the anchors may leave of a user's mean, in root mean square
    """

    mean: MeanFunction
    latents: list[np.ndarray]
    anchors: FloatArray
    at_anchors: FloatArray
    solve: FloatArray
    limit: float

    def __call__(self, users: FloatArray) -> FloatArray:
        """Weights of the anchors, (n, m).

        Warns
        -----
        BeliefWarning
            Users whom the anchors do not tell: others than the mean was read for.
        """
        found, left = [], []
        for block in blocks_of(users):
            columns = _columns(self.mean(block, self.latents))  # (S K, n)
            weights = np.einsum("sn,sm->nm", columns, self.solve)
            left.append(np.sqrt(((columns - self.at_anchors @ weights.T) ** 2).mean(axis=0)))
            found.append(weights)
        strange = np.flatnonzero(np.concatenate(left)[: len(users)] > self.limit)
        if len(strange):
            first = np.array2string(users[strange[0]], precision=4, threshold=8)
            warnings.warn(
                f"The figures for a user x = {first} are off: the nonlinear mean was read for users unlike her. Fill "
                "the inputs of its model with users like her.",
                BeliefWarning,
                stacklevel=4,
            )
        return np.concatenate(found)[: len(users)]


def blocks_of(users: FloatArray) -> Iterator[FloatArray]:
    """Users, so many at a time and the last ones filled up: sums of products depend on how many there are."""
    for start in range(0, len(users), _BLOCK):
        some = users[start : start + _BLOCK]
        yield some if len(some) == _BLOCK else np.concatenate([some, np.repeat(some[:1], _BLOCK - len(some), axis=0)])


def expand(mu: Any, x: Any, *, rows: FloatArray, tolerance: float = TOLERANCE) -> tuple[Expansion, Any]:
    """The expansion of a mean for some users (n, p), and the graph of its coefficients, (arm, anchor).

    Raises
    ------
    NoAnchorsError
        A mean that is not finite, or certain.
    """
    users = _some_users(rows)
    mean = MeanFunction(mu, x)
    latents = mean.draw(_N_DRAWS, seed=0)
    values = mean(users, latents)
    if not np.isfinite(values).all():
        raise NoAnchorsError
    chosen = _greedy(_columns(values), limit=tolerance * _spread(values))
    anchors = users[chosen]
    kept = [part[: max(64, _DRAWS_PER_ANCHOR * len(chosen))] for part in latents]
    at_anchors = _columns(values[: len(kept[0])][:, chosen])
    limit = Expansion.largest_error * _spread(values)
    weights = AnchorWeights(mean, kept, anchors, at_anchors, np.linalg.pinv(at_anchors).T, limit)
    found = Expansion(anchors=anchors, error=left_over(weights, users), weights=weights)
    return found, substitute(mu, {x: pt.constant(anchors)}).T


def left_over(weights: AnchorWeights, users: FloatArray) -> float:
    """The largest root mean square of what anchors do not tell, of any user and arm, over the mean's spread."""
    latents = weights.mean.draw(_N_DRAWS, seed=1)
    values, at_anchors = weights.mean(users, latents), weights.mean(weights.anchors, latents)
    if not (np.isfinite(values).all() and np.isfinite(at_anchors).all()):
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BeliefWarning)  # the caller tells, of all of them
        features = weights(users)
    rest = values - np.einsum("nm,smk->snk", features, at_anchors)
    return float(np.sqrt((rest**2).mean(axis=0).max()) / _spread(values))


def labels(anchors: FloatArray, features: Sequence[str]) -> tuple[str, ...]:
    """Names of coefficients: the anchors, by what is known of them."""
    for digits in (3, 5, 8, 17):
        found = tuple(
            ", ".join(f"{name}={value:.{digits}g}" for name, value in zip(features, row, strict=True))
            for row in anchors
        )
        if len(set(found)) == len(found):
            return found
    return tuple(f"user_{k}" for k in range(len(anchors)))


def _columns(values: FloatArray) -> FloatArray:
    """Means (S, n, K) by user: (S K, n)."""
    return np.swapaxes(values, 1, 2).reshape(-1, values.shape[1])


def _spread(values: FloatArray) -> float:
    spread = float(np.sqrt(values.var(axis=0).mean()))
    if not spread > 0.0:
        raise NoAnchorsError
    return spread


def _greedy(columns: FloatArray, *, limit: float) -> np.ndarray:
    """Users (m,) of whom all others are combinations, up to a root mean square: the pivots of a QR decomposition."""
    from scipy.linalg import qr

    found: Any = qr(columns, mode="r", pivoting=True)
    left = np.abs(np.diag(found[0])) / np.sqrt(len(columns))
    n = int(np.argmax(left < limit)) if (left < limit).any() else len(left)
    return np.asarray(found[1])[: max(1, min(n, _MOST_ANCHORS))]


def _some_users(rows: FloatArray) -> FloatArray:
    """Different users, and of very many some, with the outermost of every covariate."""
    users = np.unique(rows, axis=0)
    if len(users) <= _MOST_USERS:
        return users
    outer = np.concatenate([users.argmin(axis=0), users.argmax(axis=0)])
    some = np.random.default_rng(0).choice(len(users), _MOST_USERS - len(outer), replace=False)
    return users[np.unique(np.concatenate([outer, some]))]
