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
    """J Gaussian components, one per draw of the conditioners, and the noise's sd (J,) where it is among them."""

    law: GaussianLaw
    sigma: FloatArray | None


def find_conditioners(beta: Variable, *, graph: Graph) -> list[Variable] | None:
    """The variables to condition on, so that beta is Gaussian given them; None where that does not do it.

    First every variable that is not normal; then also the normal ones that stand behind a scale.
    """
    drawn = drawn_behind([beta])
    others = [v for v in drawn if not _is_normal(v)]
    scales = [part for v in drawn if _is_normal(v) for part in v.owner.op.dist_params(v.owner)[1:]]  # type: ignore[union-attr]
    behind_scales = [v for v in drawn_behind(scales) if v not in others]
    for conditioners in (others, [*others, *behind_scales]):
        if conditioners and beta not in conditioners and _is_affine_given(beta, conditioners, graph=graph):
            return conditioners
    return None


def conditional_law(
    beta: Variable,
    sigma: Variable | None,
    *,
    conditioners: list[Variable],
    groups: tuple[tuple[int, ...], ...],
    n_draws: int,
    graph: Graph,
) -> ConditionalLaw:
    """Draw the conditioners and write the belief as a mixture of what it is given each draw.

    An unknown sigma couples all arms a posteriori, so that they become one group.
    """
    outputs = [*conditioners, sigma] if sigma is not None else list(conditioners)
    drawn = compile_draws(outputs, graph=graph)(n_draws, np.random.default_rng(3))
    n_arms, d = graph.shape(beta)
    given = [_given(beta, {v: part[j] for v, part in zip(conditioners, drawn, strict=False)}) for j in range(n_draws)]
    means = np.stack([mean.reshape(-1) for mean, _ in given])
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
                covariances=np.stack([root[index] @ root[index].T for _, root in given]),
            )
        )
    law = GaussianLaw(n_arms=n_arms, n_features=d, blocks=tuple(blocks))
    return ConditionalLaw(law, np.asarray(drawn[-1], dtype=float) if sigma is not None else None)


def _given(beta: Variable, values: dict[Variable, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean (K d,) and covariance root (K d, n) of beta given the conditioners' values."""
    form = AffineReader(Graph(known=values), read_gaussian).form(beta)
    size = form.constant.size
    slopes = [slope.reshape(size, -1) for slope in form.slopes.values()] or [np.zeros((size, 1))]
    return form.constant, np.concatenate(slopes, axis=1)


def _is_affine_given(beta: Variable, conditioners: list[Variable], *, graph: Graph) -> bool:
    try:
        drawn = compile_draws(conditioners, graph=graph)(1, np.random.default_rng(0))
        _given(beta, {variable: part[0] for variable, part in zip(conditioners, drawn, strict=True)})
    except (NotAffineError, UnknownShapeError):
        return False
    return True


def _is_normal(variable: Any) -> bool:
    return isinstance(variable.owner.op, NormalRV | MvNormalRV)
