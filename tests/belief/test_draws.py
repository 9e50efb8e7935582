"""Draws in one call: jointly right, every element of its own, and the same as drawing one by one."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief.draws import _compile_batch, _compile_loop, compile_draws
from rcb_bayes.belief.graph import Graph, freeze
from rcb_bayes.belief.prior import Prior
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, D, K, normal, pm, pt

N_DRAWS = 15_000
N_LOOPED = 800
SHAPE = (K, D)
EYE = np.eye(K * D)


def laplace(name: str = "z", **parameters: Any) -> Any:
    """Laplace variables: unlike normal ones they have no closed form, so that the graph is what is drawn from."""
    return pm.Laplace(name, **({"mu": 0.0, "b": 1.0, "shape": SHAPE} | parameters))


# --- dependence of parents and children ----------------------------------------------------------------------------


def shared_mean() -> Any:
    return laplace(mu=pm.Normal("mean", 1.0, 2.0, shape=D))


def two_levels() -> Any:
    return laplace(mu=pm.Normal("mean", pm.Normal("top", 0.0, 2.0), 1.0, shape=D))


def mean_per_arm() -> Any:
    return laplace(mu=pm.Gamma("mean", 2.0, 1.0, shape=(K, 1)))


def unnamed_mean() -> Any:
    return laplace(mu=pm.Normal.dist(0.0, 2.0))


def truncated_mean() -> Any:
    return laplace(mu=pm.Truncated("mean", pm.Laplace.dist(0.0, 1.0), lower=0.0))


def unnamed_noise() -> Any:
    return laplace() + pm.Normal.dist(0.0, 2.0, size=SHAPE)


def vectors_with_a_shared_mean() -> Any:
    return pm.MvStudentT("z", nu=9.0, mu=pm.Normal("mean", 0.0, 2.0, shape=D), scale=CORRELATED, shape=SHAPE)


def zero_sum_around_a_shared_mean() -> Any:
    return pm.Normal("mean", 0.0, 2.0) + pm.ZeroSumNormal("z", sigma=pm.Gamma("s", 4.0, 4.0), shape=SHAPE)


COVARIANCES: list[tuple[zoo.Definition, float, np.ndarray]] = [
    (shared_mean, 1.0, 4.0 * np.kron(np.ones((K, K)), np.eye(D)) + 2.0 * EYE),
    (two_levels, 0.0, np.kron(np.ones((K, K)), 4.0 + np.eye(D)) + 2.0 * EYE),
    (mean_per_arm, 2.0, 2.0 * np.kron(np.eye(K), np.ones((D, D))) + 2.0 * EYE),
    (unnamed_mean, 0.0, 4.0 + 2.0 * EYE),
    (truncated_mean, 1.0, 1.0 + 2.0 * EYE),
    (unnamed_noise, 0.0, 6.0 * EYE),
    (
        vectors_with_a_shared_mean,
        0.0,
        np.kron(4.0 * np.ones((K, K)), np.eye(D)) + np.kron(np.eye(K), CORRELATED) * 9 / 7,
    ),
    (zero_sum_around_a_shared_mean, 0.0, 4.0 + 1.25 * np.kron(np.eye(K), np.eye(D) - 0.5)),
]


@pytest.mark.parametrize(("define", "mean", "covariance"), COVARIANCES, ids=[c[0].__name__ for c in COVARIANCES])
def test_children_follow_their_parents(define: zoo.Definition, mean: float, covariance: np.ndarray):
    draws = zoo.forward_draws(zoo.build(define), N_DRAWS, seed=1)
    assert draws.shape == (N_DRAWS, K, D)
    assert zoo.largest_z(draws, mean) < zoo.LIMIT
    assert zoo.largest_z(draws, mean + 0.2) > zoo.LIMIT
    seen = zoo.products(draws, mean)
    assert zoo.largest_z(seen, covariance) < zoo.LIMIT
    assert zoo.largest_z(seen, np.diag(np.diag(covariance)) + 0.2 * np.diag(covariance).max()) > zoo.LIMIT


def test_a_shared_scale_ties_the_sizes():
    """b = N(0, tau lam): E|b1 b2| = (2/pi) E[tau^2] E[lam]^2, where scales drawn apart would give (E tau)^2."""

    def define() -> Any:
        scale = pm.HalfNormal("tau", 1.0) * pm.Uniform("lam", 0.5, 1.5, shape=SHAPE)
        return pm.Normal("z", 0.0, scale, shape=SHAPE)

    draws = zoo.forward_draws(zoo.build(define), N_DRAWS, seed=1)
    sizes = np.abs(draws).reshape(N_DRAWS, -1)
    assert zoo.largest_z(sizes, 2 / np.pi) < zoo.LIMIT  # E|z| = E[tau] = sqrt(2/pi), E[lam] = 1
    assert zoo.largest_z(sizes, 2.2 / np.pi) > zoo.LIMIT
    pairs = sizes[:, [0]] * sizes[:, 1:]
    assert zoo.largest_z(pairs, 2 / np.pi) < zoo.LIMIT
    assert zoo.largest_z(pairs, (2 / np.pi) ** 2) > zoo.LIMIT


# --- in one call as one by one -------------------------------------------------------------------------------------


def lkj_with_random_scales() -> Any:
    scales = pm.HalfNormal.dist(pm.HalfNormal("top", 1.0))
    chol, _, _ = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=scales)
    return laplace() @ chol.T


def half_student_with_a_random_scale() -> Any:
    return pm.HalfStudentT("z", nu=5.0, sigma=pm.HalfNormal("s", 1.0, shape=D), shape=SHAPE)


def weibull_with_a_random_scale() -> Any:
    return pm.Weibull("z", alpha=2.0, beta=pm.HalfNormal("s", 1.0, shape=(K, 1)), shape=SHAPE)


def mixture_of_random_parts() -> Any:
    mean = pm.Normal("mean", 0.0, 2.0, shape=D)
    parts = [pm.Laplace.dist(mean, 0.5), pm.Laplace.dist(-5.0, pm.HalfNormal("s", 1.0, shape=(K, 1)))]
    return pm.Mixture("z", w=pm.Dirichlet("w", np.ones(2)), comp_dists=parts, shape=SHAPE)


def stacked_mixture_of_random_parts() -> Any:
    means = pm.Normal("means", [-3.0, 3.0], 1.0)
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=pm.Laplace.dist(means, 0.5, shape=(K, D, 2)))


def mixture_of_mixtures() -> Any:
    inner = pm.Mixture.dist(w=[0.5, 0.5], comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Normal.dist(4.0, 1.0)], shape=SHAPE)
    return pm.Mixture("z", w=[0.5, 0.5], comp_dists=[inner, pm.Normal.dist(pm.Normal("m", 9.0, 1.0), 1.0)], shape=SHAPE)


def permuted() -> Any:
    generator = pt.random.shared_rng(seed=None)
    _, order = pt.random.permutation(np.arange(float(K)), rng=generator, return_next_rng=True)
    return order[:, None] + laplace()


def random_walk() -> Any:
    return pm.GaussianRandomWalk("z", sigma=1.0, init_dist=pm.Normal.dist(0.0, 2.0), shape=SHAPE)


BATCHED = [
    two_levels,
    truncated_mean,
    unnamed_noise,
    zero_sum_around_a_shared_mean,
    mixture_of_random_parts,
    permuted,
    zoo.censored_shared_mean,
    zoo.truncated_shared_scale,
]
BATCHED_SLOW = [
    shared_mean,
    unnamed_mean,
    vectors_with_a_shared_mean,
    lkj_with_random_scales,
    half_student_with_a_random_scale,
    weibull_with_a_random_scale,
    stacked_mixture_of_random_parts,
    mixture_of_mixtures,
    random_walk,
    zoo.mixture_weights_per_arm,
]


def summaries(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics whose laws tell margins and dependence within and between arms."""
    return {
        "value": draws[:, 0, 0],
        "last": draws[:, -1, -1],
        "between arms": draws[:, 0, 0] - draws[:, 1, 0],
        "within an arm": draws[:, 2, 0] - draws[:, 2, 1],
        "size": np.abs(draws).sum(axis=(1, 2)),
    }


def same_law(first: np.ndarray, second: np.ndarray) -> float:
    found: Any = stats.ks_2samp(first, second)
    return float(found.pvalue)


def check_batch(define: zoo.Definition) -> None:
    beta = freeze(zoo.build(define))["beta"]
    draw = _compile_batch([beta], graph=Graph())
    (few,) = draw(40, np.random.default_rng(3))
    free = few[np.abs(few) != 2.0]  # where the censored model censors
    assert len(np.unique(free)) == free.size > 0.5 * few.size  # every element is drawn anew
    (batch,) = draw(4 * N_LOOPED, np.random.default_rng(1))
    (loop,) = _compile_loop([beta])(N_LOOPED, np.random.default_rng(2))
    for name, values in summaries(batch).items():
        other = summaries(loop)[name]
        assert same_law(values, other) > 1e-5, name
        assert same_law(values, other + 0.3 * np.std(other)) < 1e-5, name


@pytest.mark.parametrize("define", BATCHED, ids=[define.__name__ for define in BATCHED])
def test_a_batch_is_distributed_as_draws_one_by_one(define: zoo.Definition):
    check_batch(define)


@pytest.mark.slow
@pytest.mark.parametrize("define", BATCHED_SLOW, ids=[define.__name__ for define in BATCHED_SLOW])
def test_a_batch_of_more_models_is_distributed_as_draws_one_by_one(define: zoo.Definition):
    check_batch(define)


def test_models_that_cannot_be_batched_are_drawn_one_by_one():
    define, _ = zoo.COUPLED["custom_distribution_with_a_shared_part"]
    draws = zoo.forward_draws(zoo.build(define), N_LOOPED, seed=1)
    assert zoo.largest_z(zoo.products(draws, 0.0), 1.0 + EYE) < zoo.LIMIT
    assert zoo.largest_z(zoo.products(draws, 0.0), EYE) > zoo.LIMIT


def test_a_shared_index_picks_for_all_arms_at_once():
    def define() -> Any:
        table = laplace("table", shape=(2, K, D), mu=np.array([-2.0, 2.0])[:, None, None])
        return table[pm.Bernoulli("label", 0.5)]

    draws = zoo.forward_draws(zoo.build(define), N_LOOPED, seed=1)
    assert zoo.largest_z(zoo.products(draws, 0.0), 4.0 + 2.0 * EYE) < zoo.LIMIT
    assert zoo.largest_z(zoo.products(draws, 0.0), 6.0 * EYE) > zoo.LIMIT


def test_a_child_of_an_own_distribution_follows_it():
    def define() -> Any:
        return laplace(mu=pm.CustomDist("mean", 0.0, dist=lambda m, size: pm.Normal.dist(m, 2.0, size=size)))

    draws = zoo.forward_draws(zoo.build(define), N_LOOPED, seed=1)
    assert zoo.largest_z(zoo.products(draws, 0.0), 4.0 + 2.0 * EYE) < zoo.LIMIT
    assert zoo.largest_z(zoo.products(draws, 0.0), 2.0 * EYE) > zoo.LIMIT


def test_long_sums_can_be_drawn():
    draws = zoo.forward_draws(zoo.build(lambda: sum(laplace(f"z{k}") for k in range(40))), 2000, seed=1)
    assert zoo.largest_z(draws**2, 80.0) < zoo.LIMIT


# --- seeds, sizes, sigma -------------------------------------------------------------------------------------------

SEEDED: list[zoo.Definition] = [normal, laplace, shared_mean, mixture_of_random_parts, zoo.loop_over_arms]


@pytest.mark.parametrize("define", SEEDED, ids=[define.__name__ for define in SEEDED])
def test_seeds_reproduce(define: zoo.Definition, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rcb_bayes.belief.model._TAIL_DRAWS", 500)
    model = zoo.build(define)
    prior = Prior.from_pymc(model)
    first, again, other = (prior.draw(5, seed=seed)["beta"].to_numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()
    fresh = Prior.from_pymc(model).draw(5, seed=1)["beta"].to_numpy()  # whatever was drawn before
    np.testing.assert_array_equal(first, fresh)


@pytest.mark.parametrize("define", SEEDED[:-1], ids=[define.__name__ for define in SEEDED[:-1]])
def test_any_number_of_draws(define: zoo.Definition):
    prior = Prior.from_pymc(zoo.build(define))
    for n in (1, 2, 7):
        draws = prior.draw(n, seed=0)["beta"]
        assert draws.dims == ("draw", "arm", "feature")
        assert draws.shape == (n, K, D)
        assert draws.dtype == np.float64


def test_successive_calls_on_one_generator_differ():
    prior = Prior.from_pymc(zoo.build(shared_mean))
    rng = np.random.default_rng(0)
    first, second = (prior.draw_arrays(5, rng=rng)[0] for _ in range(2))
    assert not np.isclose(first, second).any()


def test_the_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    Prior.from_pymc(zoo.build(shared_mean)).draw(3, seed=0)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


def test_sigma_is_drawn_with_the_coefficients():
    """b ~ N(0, sigma): E|b sigma| = E|z| E[sigma^2] = .80, where draws apart would give E|z| (E sigma)^2 = .51."""

    def define() -> Any:
        return pm.Normal("z", 0.0, pm.HalfNormal("sigma", 1.0), shape=SHAPE)

    prior = Prior.from_pymc(zoo.build(define))
    assert prior.has_sigma
    draws = prior.draw(N_DRAWS, seed=1)
    assert draws["sigma"].dims == ("draw",)
    size, sigma = np.abs(draws["beta"].to_numpy()), draws["sigma"].to_numpy()[:, None, None]
    half = np.sqrt(2 / np.pi)
    assert zoo.largest_z(size * sigma, half) < zoo.LIMIT
    assert zoo.largest_z(size * sigma, half**3) > zoo.LIMIT
    assert zoo.largest_z(size * sigma[::-1], half**3) < zoo.LIMIT


def test_sigma_may_depend_on_a_gaussian_belief():
    """The coefficients have a closed form, but draws must be joint."""

    def define() -> Any:
        z = normal()
        pm.Deterministic("sigma", pt.abs(z[0, 0]))
        return 2.0 * z

    prior = Prior.from_pymc(zoo.build(define))
    assert prior.is_gaussian
    draws = prior.draw(50, seed=1)
    np.testing.assert_allclose(draws["sigma"], np.abs(draws["beta"][:, 0, 0]) / 2.0)


def test_a_constant_sigma_is_repeated():
    def define() -> Any:
        pm.Deterministic("sigma", pt.constant(0.3))
        return laplace()

    np.testing.assert_array_equal(Prior.from_pymc(zoo.build(define)).draw(4, seed=0)["sigma"], np.full(4, 0.3))


def test_constant_coefficients_are_repeated():
    (draws,) = compile_draws([pt.constant(np.ones(SHAPE))], graph=Graph())(4, np.random.default_rng(0))
    np.testing.assert_array_equal(draws, np.ones((4, K, D)))
