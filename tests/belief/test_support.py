"""Impossible parameters are refused when a belief is read, and possible ones are not."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.belief.graph import Graph, freeze
from rcb_bayes.belief.support import reach
from rcb_bayes.errors import BeliefError
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, D, K, normal, pm, pt

SHAPE = (K, D)
SOME_BAD = np.array([[1.0, 1.0], [1.0, -2.0], [1.0, 1.0]])


def laplace(b: Any = 1.0) -> Any:
    return pm.Laplace("z", 0.0, b, shape=SHAPE)


def mixture(*parts: Any) -> Any:
    return pm.Mixture("z", w=[0.5, 0.5], comp_dists=parts, shape=SHAPE)


def with_sigma(make: zoo.Definition) -> zoo.Definition:
    """A belief with a ``sigma``, made as a variable of that name or returned as an expression."""

    def define() -> Any:
        sigma = make()
        if getattr(sigma, "name", None) != "sigma":
            pm.Deterministic("sigma", sigma)
        return normal()

    return define


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on any draw."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("drew before the parameters were checked")

    monkeypatch.setattr("rcb_bayes.belief.model.compile_draws", fail)


NOT_FINITE = "The parameters of 'z' must be finite, got "
IMPOSSIBLE = "The parameters of 'z' are impossible: it needs "
BAD_SIGMA = "'sigma', the noise's standard deviation, is not always positive and finite.*pm.HalfNormal"

REFUSED: list[tuple[zoo.Definition, str]] = [
    (lambda: pm.StudentT("z", nu=3, mu=np.nan, sigma=1, shape=SHAPE), NOT_FINITE + "nan"),
    (lambda: pm.StudentT("z", nu=3, mu=np.inf, sigma=1, shape=SHAPE), NOT_FINITE + "inf"),
    (lambda: pm.StudentT("z", nu=3, mu=0, sigma=-1, shape=SHAPE), IMPOSSIBLE + "nu > 0, sigma > 0, got -1"),
    (lambda: pm.StudentT("z", nu=-3, mu=0, sigma=1, shape=SHAPE), IMPOSSIBLE + "nu > 0, sigma > 0, got -3"),
    (lambda: pm.MvStudentT("z", nu=3, mu=np.zeros(D), scale=-CORRELATED, shape=SHAPE), "a positive definite scale"),
    (lambda: pm.Moyal("z", np.nan, 1.0, shape=SHAPE), NOT_FINITE),
    (lambda: laplace(SOME_BAD), IMPOSSIBLE + "b > 0, got -2"),
    (lambda: laplace(0), IMPOSSIBLE + "b > 0, got 0"),
    (lambda: pm.Gamma("z", -2, 3, shape=SHAPE), IMPOSSIBLE + "alpha > 0, beta > 0, got -2"),
    (lambda: pm.Gamma("z", -2, pm.HalfNormal("rate"), shape=SHAPE), IMPOSSIBLE + "alpha > 0"),
    (lambda: pm.Beta("z", SOME_BAD, 1.0, shape=SHAPE), IMPOSSIBLE + "alpha > 0"),
    (lambda: pm.Uniform("z", 1, 0, shape=SHAPE), IMPOSSIBLE + "lower <= upper"),
    (lambda: pm.Exponential("z", -1, shape=SHAPE), IMPOSSIBLE + "lam > 0, got -1"),
    (lambda: pm.TruncatedNormal("z", 0, -1, lower=-1, shape=SHAPE), IMPOSSIBLE + "sigma > 0"),
    (lambda: 1.0 * pm.Poisson("z", -1, shape=SHAPE), IMPOSSIBLE + "mu >= 0"),
    (lambda: mixture(pm.Laplace.dist(0, 1), pm.Laplace.dist(0, -1)), "are impossible: it needs b > 0, got -1"),
    (lambda: pm.Normal("z", 0, -1) * pm.Laplace("y", 0, 1, shape=SHAPE), "deviation of 'z' must be finite and not neg"),
    (lambda: pm.Normal("z", 0, pm.Normal("tau"), shape=SHAPE), IMPOSSIBLE + "sigma > 0, and 'tau' may fall below"),
    (lambda: laplace(pm.Normal("tau", shape=(K, 1))), IMPOSSIBLE + "b > 0, and 'tau' may fall below that. Give"),
    (lambda: laplace(0.1 * pm.Normal("tau") + 1.0), IMPOSSIBLE + "b > 0, and 'tau' may fall below"),
    (lambda: laplace(pm.Uniform("tau", -1, 1)), IMPOSSIBLE + "b > 0, and 'tau' may fall below"),
    (with_sigma(lambda: pm.Normal("sigma")), BAD_SIGMA),
    (with_sigma(lambda: pm.Normal("sigma", 0, pm.HalfNormal("tau"))), BAD_SIGMA),
    (with_sigma(lambda: pm.StudentT("sigma", nu=3)), BAD_SIGMA),
    (with_sigma(lambda: pm.Uniform("sigma", -1, 1)), BAD_SIGMA),
    (with_sigma(lambda: pm.TruncatedNormal("sigma", 0, 1, upper=1)), BAD_SIGMA),
    (with_sigma(lambda: 1.0 + 0.5 * pm.Normal("s")), BAD_SIGMA),
    (with_sigma(lambda: pt.constant(-1.0)), BAD_SIGMA),
    (with_sigma(lambda: pt.constant(0)), BAD_SIGMA),
    (with_sigma(lambda: pt.constant(np.nan)), BAD_SIGMA),
    (with_sigma(lambda: pm.Data("sigma", -1.0)), BAD_SIGMA),
    (with_sigma(lambda: pm.HalfNormal("sigma", -1)), "'sigma' are impossible: it needs sigma > 0, got -1"),
    (with_sigma(lambda: pm.HalfNormal("sigma", np.nan)), "parameters of 'sigma' must be finite"),
]


@pytest.mark.usefixtures("no_draws")
@pytest.mark.parametrize(("define", "message"), REFUSED)
def test_impossible_parameters_are_refused_in_one_line_before_any_draw(define: zoo.Definition, message: str):
    model = zoo.build(define)
    with pytest.raises(BeliefError, match=message) as caught:
        Prior.from_pymc(model)
    assert "\n" not in str(caught.value)


POSSIBLE: list[zoo.Definition] = [
    lambda: pm.Normal("z", 0.0, np.abs(SOME_BAD) - 1.0, shape=SHAPE),  # zeros: coefficients that are known
    lambda: pm.MvNormal("z", np.zeros(D), np.ones((D, D)), shape=SHAPE),  # singular
    lambda: laplace(pt.abs(pm.Normal("tau"))),
    lambda: laplace(pm.TruncatedNormal("tau", 1.0, 1.0, lower=0.0)),
    lambda: laplace(pm.Censored("tau", pm.Normal.dist(), lower=0.1, upper=None)),
    lambda: pm.TruncatedNormal("z", 0.0, 1.0, lower=-1.0, upper=np.inf, shape=SHAPE),
    lambda: pm.Truncated("z", pm.Normal.dist(0, 1), lower=-1, upper=np.inf, shape=SHAPE),
    lambda: mixture(pm.Laplace.dist(0, 1), pm.Laplace.dist(0, 2)),
    with_sigma(lambda: pm.HalfNormal("sigma")),
    with_sigma(lambda: pm.Uniform("sigma", 0, 1)),
    with_sigma(lambda: pt.exp(pm.Normal("s"))),
    with_sigma(lambda: pt.constant(0.3)),
    with_sigma(lambda: pm.InverseGamma("s", 3, 1) ** 0.5),
]


@pytest.mark.parametrize("define", POSSIBLE)
def test_possible_parameters_are_let_through_and_drawn_from(define: zoo.Definition):
    draws = Prior.from_pymc(zoo.build(define)).draw(50, seed=0)
    assert all(np.isfinite(draws[name]).all() for name in draws)


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (with_sigma(lambda: pm.Normal("s") ** 3), BAD_SIGMA),
        (lambda: laplace(pm.Normal("tau") ** 3), "cannot be drawn from: check its parameters"),
        (lambda: pt.log(normal()), "beta are not finite"),
    ],
)
def test_what_the_graph_does_not_tell_is_seen_in_the_draws(define: zoo.Definition, message: str):
    model = zoo.build(define)
    with pytest.raises(BeliefError, match=message) as caught:
        Prior.from_pymc(model).draw(50, seed=0)
    assert "scale < 0" not in str(caught.value)  # what NumPy and SciPy say stays with the cause


@pytest.mark.parametrize(
    ("define", "lowest"),
    [
        (lambda: pt.constant([2.0, -3.0]), -3.0),
        (lambda: pm.Normal("x"), -np.inf),
        (lambda: 1.0 - pm.Normal("x"), -np.inf),
        (lambda: pm.Cauchy("x", 0, 1, shape=2)[None], -np.inf),
        (lambda: pm.Uniform("x", 2, 3), 2.0),
        (lambda: pm.Uniform("x", pm.Normal("low"), 30), np.inf),
        (lambda: pm.TruncatedNormal("x", 0, 1, lower=-2), -2.0),
        (lambda: pm.Mixture.dist(w=[0.5, 0.5], comp_dists=[pm.Uniform.dist(-3, 1), pm.Uniform.dist(0, 1)]), -3.0),
        (lambda: pm.HalfNormal("x"), np.inf),  # not told: nothing asks for more than zero
        (lambda: pt.exp(pm.Normal("x")), np.inf),
        (lambda: pm.CustomDist("x", dist=lambda size: pm.Normal.dist(size=size)), np.inf),
    ],
)
def test_how_low_a_variable_is_known_to_reach(define: zoo.Definition, lowest: float):
    with pm.Model() as model:
        pm.Deterministic("it", define())
    assert reach(freeze(model)["it"], Graph()) == lowest
