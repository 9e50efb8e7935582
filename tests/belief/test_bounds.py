"""Intervals of variables: draws stay inside, and ends are met where the graph tells them."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief.bounds import Bounds
from rcb_bayes.belief.graph import Graph, freeze
from tests.belief import zoo
from tests.belief.zoo import D, K, normal, pm, pt

SHAPE = (K, D)
INF = np.inf


def uniform(low: float = -1.0, high: float = 2.0) -> Any:
    return pm.Uniform("u", low, high, shape=SHAPE)


def half() -> Any:
    return pm.HalfNormal("h", 1.0, shape=SHAPE)


CASES: list[tuple[zoo.Definition, tuple[float, float]]] = [
    (normal, (-INF, INF)),
    (uniform, (-1.0, 2.0)),
    (half, (0.0, INF)),
    (lambda: pm.Beta("b", 2.0, 3.0, shape=SHAPE), (0.0, 1.0)),
    (lambda: 3.0 - 2.0 * uniform(), (-1.0, 5.0)),
    (lambda: -half(), (-INF, 0.0)),
    (lambda: uniform() * half(), (-INF, INF)),
    (lambda: uniform() ** 2, (0.0, 4.0)),
    (lambda: pt.abs(uniform(1.0, 2.0)), (1.0, 2.0)),
    (lambda: pt.abs(uniform()), (0.0, 2.0)),
    (lambda: pt.sqrt(half() + 4.0), (2.0, INF)),
    (lambda: pt.exp(-half()), (0.0, 1.0)),
    (lambda: 1.0 / (1.0 + half()), (0.0, 1.0)),
    (lambda: 1.0 / normal(), (-INF, INF)),
    (lambda: pt.reciprocal(2.0 + uniform()), (0.25, 1.0)),
    (lambda: (4.0 + half()) ** -0.5, (0.0, 0.5)),
    (lambda: half() ** -1.0, (0.0, INF)),
    (lambda: normal() ** 4.0, (0.0, INF)),
    (lambda: normal() ** 3.0, (-INF, INF)),
    (lambda: pt.stack([uniform()[0], uniform_of_its_own(), np.full(D, 7.0)]), (-1.0, 7.0)),
    (lambda: pm.Uniform("u", -1.0, 2.0, shape=(K, D, 4)).sum(axis=2), (-4.0, 8.0)),
    (lambda: pt.prod(pm.Uniform("u", 0.0, 0.5, shape=(K, D, 4)), axis=2), (0.0, 1.0)),
    (lambda: uniform() @ np.array([[1.0, 2.0], [0.0, 2.0]]), (-4.0, 8.0)),
    (lambda: pt.tanh(normal()) + (normal("other") > 0.0), (-1.0, 2.0)),
]


def uniform_of_its_own() -> Any:
    return pm.Uniform("own", 3.0, 4.0, shape=D)


@pytest.mark.parametrize(("define", "expected"), CASES)
def test_intervals(define: zoo.Definition, expected: tuple[float, float]) -> None:
    model = zoo.build(define)
    low, high = Bounds(Graph()).of(freeze(model)["beta"])
    assert (low, high) == pytest.approx(expected)
    draws = zoo.forward_draws(model, 200, seed=1)
    assert draws.min() >= low - 1e-12
    assert draws.max() <= high + 1e-12
