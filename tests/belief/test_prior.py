"""Beliefs as users meet them: labels, moments, Gaussian forms, round trips, and what bad input says."""

from typing import Any

import numpy as np
import pytest
from pymc import Model

from rcb_bayes.belief import Prior
from rcb_bayes.errors import BeliefError, DataError, RcbError
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, DIMS, D, K, normal, pm, pt

SHAPE = (K, D)
GRID = np.arange(6.0).reshape(SHAPE)
EYE = np.eye(K * D)


def random_covariance(p: int, *, seed: int = 0, rank: int | None = None) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((p, rank or p))
    return factor @ factor.T


def joint_of(prior: Prior) -> np.ndarray:
    return prior.covariance.to_numpy().reshape(prior.n_arms * prior.n_features, -1)


# --- labels and moments --------------------------------------------------------------------------------------------


def test_labels_are_the_models():
    prior = Prior.from_pymc(zoo.build(normal), name="mine")
    assert (prior.arms, prior.features) == (("a", "b", "c"), ("x", "y"))
    assert (prior.n_arms, prior.n_features, prior.name) == (K, D, "mine")
    draws = prior.draw(2, seed=0)
    assert list(draws["arm"].to_numpy()) == ["a", "b", "c"]
    assert list(draws["feature"].to_numpy()) == ["x", "y"]


def test_labels_default_to_numbers():
    prior = Prior.gaussian(GRID, 1.0)
    assert prior.arms == ("arm_0", "arm_1", "arm_2")
    assert prior.features == ("feature_0", "feature_1")
    with pm.Model() as model:
        model.add_coord("arm", length=K)
        model.add_coord("feature", length=D)
        pm.Normal("beta", 0.0, 1.0, dims=DIMS)
    assert Prior.from_pymc(model).arms == ("arm_0", "arm_1", "arm_2")


def test_labels_need_not_be_text():
    prior = Prior.gaussian(GRID, 1.0, arms=[10, 20, 30], features=["x", 2])
    assert prior.arms == ("10", "20", "30")
    assert prior.features == ("x", "2")


def test_moments_carry_labels_and_errors():
    moments = Prior.from_pymc(zoo.build(lambda: GRID + pm.Laplace("z", 0.0, 1.0, shape=SHAPE))).moments
    assert moments["mean"].dims == ("arm", "feature")
    assert moments["covariance"].dims == ("arm", "feature", "arm_2", "feature_2")
    assert list(moments["arm_2"].to_numpy()) == ["a", "b", "c"]
    np.testing.assert_array_equal(moments["mean"], GRID)  # exact, with no error
    assert not moments["mean_mcse"].any()
    covariance, error = (moments[name].to_numpy().reshape(6, 6) for name in ("covariance", "covariance_mcse"))
    assert (np.abs(covariance - 2.0 * EYE) / error).max() < zoo.LIMIT
    assert (np.abs(covariance - 2.1 * EYE) / error).max() > zoo.LIMIT


def test_sampled_means_carry_errors():
    moments = Prior.from_pymc(zoo.build(lambda: pt.exp(normal()))).moments
    mean, error = moments["mean"].to_numpy(), moments["mean_mcse"].to_numpy()
    assert (error > 0).all()
    assert (np.abs(mean - np.exp(0.5)) / error).max() < zoo.LIMIT
    assert (np.abs(mean - 1.05 * np.exp(0.5)) / error).max() > zoo.LIMIT


def test_closed_forms_have_no_error():
    prior = Prior.from_pymc(zoo.build(lambda: normal("shared", D) + normal()))
    assert not prior.moments["covariance_mcse"].any()
    np.testing.assert_allclose(joint_of(prior), np.kron(np.ones((K, K)), np.eye(D)) + EYE)
    np.testing.assert_allclose(prior.covariance.sel(arm="a", feature="x", arm_2="b", feature_2="x"), 1.0)


def test_a_belief_describes_itself():
    def define() -> Any:
        pm.HalfNormal("sigma", 1.0)
        return normal()

    assert "Gaussian, independent arms, unknown noise" in Prior.from_pymc(zoo.build(define)).describe()
    coupled = Prior.gaussian(GRID, random_covariance(6), name="joint")
    assert repr(coupled) == "<Prior joint: 3 arms, 2 features, Gaussian, coupled arms>"


def test_reading_a_model_leaves_it_alone():
    model = zoo.build(lambda: pm.Laplace("z", pm.Normal("mean"), 1.0, shape=SHAPE))
    before = list(model.named_vars)
    prior = Prior.from_pymc(model)
    prior.draw(2, seed=0)
    assert prior.model is model
    assert list(model.named_vars) == before
    assert [v.name for v in model.free_RVs] == ["mean", "z"]


# --- Gaussian beliefs in closed form -------------------------------------------------------------------------------

PER_ARM = np.stack([CORRELATED, np.eye(D), 3.0 * CORRELATED])
FORMS: list[tuple[str, Any, np.ndarray]] = [
    ("one variance", 0.5, 0.5 * EYE),
    ("a variance per arm", [1.0, 2.0, 3.0], np.diag([1.0, 1.0, 2.0, 2.0, 3.0, 3.0])),
    ("one covariance for all", CORRELATED, np.kron(np.eye(K), CORRELATED)),
    ("a covariance per arm", PER_ARM, np.kron(np.diag([1.0, 0, 3.0]), CORRELATED) + np.diag([0, 0, 1.0, 1.0, 0, 0])),
    ("joint", random_covariance(6), random_covariance(6)),
    ("whole numbers", 2, 2.0 * EYE),
    ("known for certain", 0.0, 0.0 * EYE),
]


@pytest.mark.parametrize(("cov", "joint"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_forms_of_a_covariance(cov: Any, joint: np.ndarray):
    prior = Prior.gaussian(GRID, cov)
    np.testing.assert_allclose(prior.mean, GRID)
    np.testing.assert_allclose(joint_of(prior), joint)
    assert prior.is_gaussian
    assert prior.arms_independent == (
        joint.shape == (6, 6) and not np.any(np.kron(1 - np.eye(K), np.ones((D, D))) * joint)
    )


@pytest.mark.parametrize(
    ("cov", "joint"),
    [
        ([1.0, 4.0], np.diag([1.0, 1.0, 4.0, 4.0])),  # (2,): one variance per arm, never per feature
        (CORRELATED, np.kron(np.eye(2), CORRELATED)),  # (2, 2): over features, never over arms
        (np.stack([CORRELATED, np.eye(2)]), np.kron(np.diag([1.0, 0]), CORRELATED) + np.diag([0, 0, 1.0, 1.0])),
        (random_covariance(4), random_covariance(4)),
    ],
)
def test_as_many_arms_as_features(cov: Any, joint: np.ndarray):
    np.testing.assert_allclose(joint_of(Prior.gaussian(np.zeros((2, 2)), cov)), joint)


def test_one_feature():
    np.testing.assert_allclose(joint_of(Prior.gaussian(np.zeros((3, 1)), [[2.0]])), 2.0 * np.eye(3))
    np.testing.assert_allclose(joint_of(Prior.gaussian(np.zeros((3, 1)), random_covariance(3))), random_covariance(3))


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_singular_beliefs_have_no_density(rank: int):
    prior = Prior.gaussian(GRID, random_covariance(6, rank=rank))
    assert prior.has_density == (rank == 6)
    if rank < 6:
        with pytest.raises(BeliefError, match="no density of its own: its covariance is singular"):
            prior.log_density(GRID)
    draws = prior.draw(20, seed=0)["beta"].to_numpy().reshape(20, 6)
    assert np.linalg.matrix_rank(draws - GRID.ravel(), tol=1e-5) == rank


BLOCKS = np.zeros((6, 6))
BLOCKS[np.ix_([0, 1, 4, 5], [0, 1, 4, 5])] = random_covariance(4)
BLOCKS[2:4, 2:4] = CORRELATED


@pytest.mark.parametrize(
    "cov", [0.5, [1.0, 2.0, 3.0], CORRELATED, PER_ARM, random_covariance(6), random_covariance(6, rank=3), BLOCKS]
)
def test_a_closed_form_survives_the_trip_through_pymc(cov: Any):
    prior = Prior.gaussian(GRID, cov, arms=["a", "b", "c"])
    again = Prior.from_pymc(prior.model)
    assert (again.arms, again.features) == (prior.arms, prior.features)
    assert again.groups == prior.groups
    assert again.is_gaussian
    np.testing.assert_allclose(again.mean, prior.mean)
    np.testing.assert_allclose(again.covariance, prior.covariance, atol=1e-10)
    assert again.has_density == prior.has_density
    if prior.has_density:
        values = np.random.default_rng(0).standard_normal((4, K, D))
        np.testing.assert_allclose(again.group_log_density(values), prior.group_log_density(values), rtol=1e-9)


def test_groups_of_a_joint_covariance():
    assert Prior.gaussian(GRID, BLOCKS).groups == ((0, 2), (1,))
    assert not Prior.gaussian(GRID, BLOCKS).arms_independent


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_permuting_arms_permutes_the_belief(order: list[int]):
    def define() -> Any:
        heavy = pm.StudentT("heavy", nu=5.0, mu=1.0, sigma=1.0, shape=(1, D))
        pair = pm.Laplace("pair", pm.Normal("mean"), 1.0, shape=(2, D))
        return pt.concatenate([heavy, pair], axis=0)

    prior = Prior.from_pymc(zoo.build(define))
    permuted = Prior.from_pymc(zoo.build(lambda: define()[np.array(order)], arms=[zoo.ARMS[k] for k in order]))
    assert prior.groups == ((0,), (1, 2))
    assert {tuple(sorted(order[k] for k in group)) for group in permuted.groups} == set(prior.groups)
    np.testing.assert_array_equal(permuted.mean.sel(arm=zoo.ARMS), prior.mean)
    difference = (permuted.covariance.sel(arm=zoo.ARMS, arm_2=zoo.ARMS) - prior.covariance).to_numpy()
    error = prior.moments["covariance_mcse"].to_numpy()
    assert (np.abs(difference) / error).max() < zoo.LIMIT * np.sqrt(2)


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "cov", "error", "message"),
    [
        (GRID, np.eye(3), BeliefError, r"cov must be a variance, \(3,\), \(2, 2\), \(3, 2, 2\) or \(6, 6\)"),
        (GRID, [1.0, 2.0], BeliefError, r"got shape \(2,\)"),
        (GRID, np.ones((2, 2, 2)), BeliefError, r"got shape \(2, 2, 2\)"),
        (GRID, [[1.0, 0.5], [0.4, 1.0]], BeliefError, "symmetric"),
        (GRID, [[1.0, 2.0], [2.0, 1.0]], BeliefError, "smallest eigenvalue of -1"),
        (GRID, -1.0, BeliefError, "positive semi-definite"),
        (GRID, [1.0, -1.0, 1.0], BeliefError, "positive semi-definite"),
        (GRID, np.nan, DataError, "cov must be finite"),
        (GRID, "wide", DataError, "cov must be numeric"),
        (np.full(SHAPE, np.inf), 1.0, DataError, r"mean must be finite.*index \(0, 0\)"),
        (np.zeros(3), 1.0, DataError, r"mean must have 2 dimension\(s\), got shape \(3,\)"),
        (np.zeros((1, 2)), 1.0, BeliefError, "at least two arms"),
        (np.zeros((2, 0)), 1.0, BeliefError, "one feature"),
    ],
)
def test_bad_gaussian_beliefs(mean: Any, cov: Any, error: type[RcbError], message: str):
    with pytest.raises(error, match=message):
        Prior.gaussian(mean, cov)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"arms": ["a", "b"]}, "Expected 3 arm labels, got 2"),
        ({"arms": ["a", "b", "a"]}, "must differ"),
        ({"features": [1, "1"]}, "must differ"),
    ],
)
def test_bad_labels(labels: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        Prior.gaussian(GRID, 1.0, **labels)


def beta_itself(make: zoo.Definition) -> zoo.Definition:
    """A definition that makes the variable ``beta`` and returns no expression."""

    def define() -> None:
        make()

    return define


def no_beta() -> None:
    pm.Normal("betas", 0.0, 1.0, dims=DIMS)


def potential() -> None:
    beta = pm.Normal("beta", 0.0, 1.0, dims=DIMS)
    pm.Potential("order", -(beta[0, 0] ** 2))


def vector_sigma() -> None:
    pm.HalfNormal("sigma", 1.0, shape=K)
    pm.Normal("beta", 0.0, 1.0, dims=DIMS)


def flat_sigma() -> None:
    pm.HalfFlat("sigma")
    pm.Normal("beta", 0.0, 1.0, dims=DIMS)


BAD_MODELS: list[tuple[zoo.Definition, str]] = [
    (no_beta, r"no variable 'beta' \(variables: betas\). Did you mean 'betas'\?"),
    (lambda: None, r"no variable 'beta' \(variables: none\)"),
    (beta_itself(lambda: pm.Normal("beta", 0.0, 1.0, dims="arm")), r"got dims \('arm',\)"),
    (beta_itself(lambda: pm.Normal("beta", 0.0, 1.0, shape=SHAPE)), "got no dims"),
    (beta_itself(lambda: pm.Flat("beta", dims=DIMS)), "improper.*give beta a proper prior"),
    (lambda: normal() + pm.HalfFlat("scale"), "improper"),
    (flat_sigma, "improper.*give sigma a proper prior"),
    (potential, r"Potential \(order\)"),
    (vector_sigma, r"'sigma' .* must be a scalar, got 1 dimension"),
    (lambda: pm.Normal("z", np.nan, 1.0, shape=SHAPE), "parameters of 'z' must be finite"),
    (lambda: np.nan + normal(), "mean of beta is not finite"),
    (lambda: pm.StudentT("z", nu=1.0, mu=0.0, sigma=1.0, shape=SHAPE), "no finite mean"),
]


@pytest.mark.parametrize(("define", "message"), BAD_MODELS)
def test_bad_models(define: zoo.Definition, message: str):
    model = zoo.build(define)
    with pytest.raises(BeliefError, match=message):
        Prior.from_pymc(model)


@pytest.mark.parametrize(("arms", "features"), [(["only"], ["x"]), (["a", "b"], [])])
def test_too_few_arms_or_features(arms: list[str], features: list[str]):
    with pm.Model(coords={"arm": arms, "feature": features}) as model:
        pm.Normal("beta", 0.0, 1.0, dims=DIMS)
    with pytest.raises(BeliefError, match="at least two arms and one feature"):
        Prior.from_pymc(model)


@pytest.mark.parametrize("thing", [None, "gaussian", Model, np.zeros(SHAPE), Prior.gaussian(GRID, 1.0)])
def test_not_a_model(thing: Any):
    with pytest.raises(BeliefError, match=r"^model must be a pm\.Model, got .*pm\.Model\(coords="):
        Prior.from_pymc(thing)


@pytest.mark.parametrize("n", [0, -1, 2.5, 2.0, True, "5", None, np.nan])
def test_bad_numbers_of_draws(n: Any):
    with pytest.raises(RcbError, match=f"n must be an integer of at least 1, got {n!r}"):
        Prior.gaussian(GRID, 1.0).draw(n)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.zeros((D, K)), BeliefError, r"beta must have shape \(..., 3, 2\), got \(2, 3\)"),
        (np.zeros(6), BeliefError, "must have shape"),
        (np.full(SHAPE, np.nan), DataError, "beta must be finite"),
    ],
)
def test_bad_values_of_beta(values: np.ndarray, error: type[RcbError], message: str):
    with pytest.raises(error, match=message):
        Prior.gaussian(GRID, 1.0).log_density(values)


@pytest.mark.parametrize("batch", [(), (1,), (4,), (2, 3), (0,)])
def test_densities_of_any_batch(batch: tuple[int, ...]):
    assert np.shape(Prior.gaussian(GRID, 1.0).log_density(np.zeros((*batch, K, D)))) == batch
