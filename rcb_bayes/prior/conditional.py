"""Beliefs that are Gaussian once a few parameters are known: scales, correlations, the noise.

Draw those parameters (the conditioners) from the belief; given each draw, ``beta`` is Gaussian in closed form. A
hierarchical belief then is, up to Monte Carlo error in the conditioners alone, an equally weighted mixture of
Gaussians, whose posterior is exact.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.tensor.random.basic import MvNormalRV, NormalRV

from rcb_bayes.prior.affine import AffineReader, NotAffineError
from rcb_bayes.prior.draws import compile_draws
from rcb_bayes.prior.gaussian import read_gaussian
from rcb_bayes.prior.graph import Graph, UnknownShapeError, drawn_behind
from rcb_bayes.prior.law import Block, GaussianLaw
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalLaw:
    """J Gaussian components, one per draw of the conditioners, and the noise's sd (J,) where it is among them.

    ``only_sigma`` says that the components differ in nothing but the noise.
    """

    law: GaussianLaw
    sigma: FloatArray | None
    only_sigma: bool = False


def find_conditioners(beta: Variable, *, sigma: Variable | None = None, graph: Graph) -> list[Variable] | None:
    """The variables to condition on, so that beta is Gaussian given them; None where that does not do it.

    First every variable that is not normal; then also the normal ones that stand behind a scale. What beta shares with
    an unknown ``sigma`` comes on top, for only given that is the noise independent of beta.
    """
    drawn = drawn_behind([beta])
    others = [v for v in drawn if not _is_normal(v)]
    scales = [part for v in drawn if _is_normal(v) for part in v.owner.op.dist_params(v.owner)[1:]]  # type: ignore[union-attr]
    shared = [v for v in drawn_behind([sigma]) if v in drawn] if sigma is not None else []
    for candidates in ([*others, *shared], [*others, *shared, *drawn_behind(scales)]):
        conditioners = list(dict.fromkeys(candidates))
        if conditioners and beta not in conditioners and _is_gaussian_given(beta, conditioners, graph=graph):
            return conditioners
    return None


def shares_randomness(beta: Variable, sigma: Variable) -> bool:
    """Whether the noise's sd depends on anything that beta depends on."""
    behind = drawn_behind([beta])
    return any(v in behind for v in drawn_behind([sigma]))


def conditional_law(
    beta: Variable,
    sigma: Variable | None,
    *,
    conditioners: list[Variable],
    groups: tuple[tuple[int, ...], ...],
    n_draws: int,
    replicate: int,
    graph: Graph,
) -> ConditionalLaw:
    """Draw the conditioners and write the belief as a mixture of what it is given each draw.

    An unknown sigma couples all arms a posteriori, so that they become one group. Every ``replicate`` is a fresh set of
    draws.
    """
    outputs = [*conditioners, sigma] if sigma is not None else list(conditioners)
    drawn = compile_draws(outputs, graph=graph)(n_draws, np.random.default_rng([3, replicate]))
    n_arms, d = graph.shape(beta)
    n_given = n_draws if conditioners else 1  # what nothing is drawn for is the same every time
    given = [_given(beta, {v: part[j] for v, part in zip(conditioners, drawn, strict=False)}) for j in range(n_given)]
    means = np.broadcast_to([mean.reshape(-1) for mean, _ in given], (n_draws, n_arms * d))
    if sigma is not None:
        groups = (tuple(range(n_arms)),)
    blocks = []
    for arms in groups:
        index = [arm * d + k for arm in arms for k in range(d)]
        blocks.append(
            Block(
                arms=arms,
                weights=np.full(n_draws, 1.0 / n_draws),
                means=means[:, index],
                covariances=np.broadcast_to(
                    [root[index] @ root[index].T for _, root in given], (n_draws, len(index), len(index))
                ),
            )
        )
    law = GaussianLaw(n_arms=n_arms, n_features=d, blocks=tuple(blocks))
    sigmas = np.asarray(drawn[-1], dtype=float) if sigma is not None else None
    return ConditionalLaw(law, sigmas, only_sigma=sigma is not None and not conditioners)


def _given(beta: Variable, values: dict[Variable, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean (K d,) and covariance root (K d, n) of beta given the conditioners' values."""
    form = AffineReader(Graph(known=values), read_gaussian).form(beta)
    size = form.constant.size
    slopes = [slope.reshape(size, -1) for slope in form.slopes.values()] or [np.zeros((size, 1))]
    return form.constant, np.concatenate(slopes, axis=1)


def _is_gaussian_given(beta: Variable, conditioners: list[Variable], *, graph: Graph) -> bool:
    """Whether beta is affine in normals given two draws of the conditioners, and not one of these itself.

    A coefficient that the conditioners fix, at values that differ, would be a point mass for every draw of them: to
    draw it from the belief and hope that the data agree is no way to a posterior.
    """
    try:
        drawn = compile_draws(conditioners, graph=graph)(2, np.random.default_rng(0))
        given = [_given(beta, {v: part[j] for v, part in zip(conditioners, drawn, strict=True)}) for j in range(2)]
    except (NotAffineError, UnknownShapeError):
        return False
    fixed = np.all([(root == 0).all(axis=1) for _, root in given], axis=0)
    first, second = (mean.reshape(-1)[fixed] for mean, _ in given)
    return bool((first == second).all())


def _is_normal(variable: Any) -> bool:
    return isinstance(variable.owner.op, NormalRV | MvNormalRV)
