"""Means that are easily misread: formulas that change in rare draws or far away, tables, whole numbers, fixed sizes."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

import pickle
import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms

import rcb_bayes as rcb
from rcb_bayes.belief.regression import read_regression
from rcb_bayes.errors import BeliefError, BeliefWarning, DataError
from tests.belief.test_regression import COORDS, ROWS, Mean, normal, read, regression

WHOLE = np.array([[0, 1], [1, 2], [2, 3], [3, 1]])


def rare_curve(x):
    """Most draws are lines, one in thirty bends."""
    bends = pm.Bernoulli("bends", 0.03)
    return pt.switch(pt.eq(bends, 1), x**2 @ normal("q", 2, 2), x @ normal("w", 2, 2))


def rare_slope(x):
    return x @ normal("w", 2, 2) + pt.maximum(normal("s", 1, mu=0.0, sigma=1.0) - 2.0, 0.0) * x**3


def rarely_used(x):
    return x @ (normal("w", 2, 2) * pm.Bernoulli("used", 0.05, shape=2)[:, None]) + normal("c", 2)


def clipped(x):
    """Nobody in the model's own rows is clipped."""
    return x @ normal("w", 2, 2) + pt.clip(x, -5.0, 5.0) @ normal("q", 2, 2)


def only_clipped(x):
    return pt.clip(x, -5.0, 5.0) @ normal("q", 2, 2)


def logarithm_where_positive(x):
    inner = pt.switch(x[:, [1]] > 0, pt.log(x[:, [1]]) * (normal("a", 2) + pt.sqrt(x[:, [0]]) * normal("b", 2)), 0.0)
    return pt.switch(x[:, [0]] > 0, inner + normal("c", 2), pt.exp(-x) @ normal("w", 2, 2))


def switch_on_a_number(x):
    return pt.switch(pt.floor(2.0 * x[:, [0]] + 2.0), normal("a", 2) * x[:, [0]], normal("w", 2))


def minus_a_product(x):
    return (normal("a", 2) - x[:, [0]] * normal("w", 2)) * x[:, [1]]


def einsum(x):
    return pt.einsum("uf,af->ua", x, normal("w", 2, 2)) * pm.HalfNormal("scale", 1.0)


def by_group(x):
    """A group's own slopes, and a table of two places."""
    first, second = (pt.clip(pt.round(2.0 * x[:, k] + 2.0), 0, 4).astype("int64") for k in (0, 1))
    scale = pm.HalfNormal("scale", 1.0, shape=2)
    slopes = (normal("m", 2, 2) + normal("s", 5, 2, 2) * scale)[first]
    return (slopes * x[:, None, :]).sum(-1) + normal("t", 5, 5, 2)[first, second]


def by_group_and_arm(x):
    place = pt.clip(pt.round(2.0 * x[:, 0] + 2.0), 0, 4).astype("int64")
    return pt.stack([normal("z", 2, 5)[1, place], normal("y", 5, 3)[place - 5, 2] * x[:, 1]], axis=1)


def large_table(x):
    """Its groups are more than a sum of products has room for."""
    place = pt.clip(pt.round(30.0 * x[:, 0] + 60.0), 0, 119).astype("int64")
    return normal("z", 120, 2, 2)[place][:, :, 0]


def constant_table(x):
    """A table of numbers that the model holds, and that ends."""
    place = pt.maximum(pt.floor(x[:, 0] + 1.0), 0.0).astype("int64")
    return pt.as_tensor(np.linspace(0.0, 1.0, 12).reshape(4, 3))[place] @ normal("w", 3, 2)


FAR = [
    *(rare_curve, rare_slope, rarely_used, clipped, only_clipped, logarithm_where_positive, switch_on_a_number),
    *(by_group, by_group_and_arm, large_table),
]


@pytest.mark.parametrize(
    ("mean", "reach"),
    [*((mean, 20.0) for mean in FAR), (minus_a_product, 20.0), (einsum, 20.0), (constant_table, 1.0)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_it_is_the_model_of_any_user_in_every_draw(mean: Mean, reach: float) -> None:
    prior = read(regression(mean))
    assert prior.expansion is None
    x = np.random.default_rng(8).uniform(-reach, reach, size=(50, 2))
    _compare(prior, x, draws=300)


@pytest.mark.parametrize("mean", [clipped, only_clipped])
def test_it_is_the_model_though_its_rows_are_nothing_but_zeros(mean: Mean) -> None:
    prior = read(regression(mean, rows=np.zeros((1, 2))))
    _compare(prior, np.random.default_rng(8).uniform(-20.0, 20.0, size=(50, 2)), draws=3)


def _compare(prior: rcb.Prior, x: np.ndarray, *, draws: int) -> None:
    """Means by the model and by coefficients, of the same latents."""
    features = x if prior.feature_map is None else prior.feature_map(x.astype(float))
    data: Any = prior.model["x"]
    data.set_value(x.astype(data.get_value().dtype))
    mu, beta = pm.draw([prior.model["mu"], prior.model["beta"]], draws=draws, random_seed=5, mode="FAST_COMPILE")
    told = np.einsum("nb,sab->sna", features, beta)
    np.testing.assert_allclose(told, mu, rtol=1e-8, atol=1e-8 * np.abs(mu).max())
    assert np.abs(1.001 * told - mu).max() > 1e-6


def test_users_whom_a_nonlinear_mean_was_not_read_for_are_told() -> None:
    """A group that no row is in: nothing is known of it, and it would pass for the average."""
    rows = np.tile(np.arange(4.0), 3)[:, None]
    prior = read(regression(lambda x: normal("z", 2, 5)[np.arange(2), x.astype("int64")], rows=rows))
    assert prior.expansion is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", BeliefWarning)
        prior.feature_map(rows)
    with pytest.warns(BeliefWarning, match=r"for a user x = \[4\.\] are off"):
        prior.feature_map(np.array([[1.0], [4.0]]))


def test_einsum_is_no_obstacle_to_a_closed_form() -> None:
    assert read(
        regression(lambda x: pt.einsum("uf,af->ua", x, normal("w", 2, 2)) + x @ pt.diag(normal("v", 2)))
    ).is_gaussian


# --- whole numbers ----------------------------------------------------------------------------------------------------


def arithmetic(x):
    return (x // 2) @ normal("w", 2, 2) + (x % 2) @ normal("v", 2, 2) + x / 2 @ normal("z", 2, 2)


def looked_up(x):
    return normal("z", 4, 2)[x[:, 0]] * x[:, [1]]


@pytest.mark.parametrize("mean", [arithmetic, looked_up])
def test_inputs_in_whole_numbers(mean: Mean) -> None:
    prior = read(regression(mean, rows=WHOLE))
    assert prior.expansion is None
    _compare(prior, np.array([[0, 5], [1, 2], [2, 3], [0, 0], [3, 2]]), draws=3)


def test_whole_numbers_in_the_model_do_not_round_users() -> None:
    prior = read(regression(lambda x: x @ normal("w", 2, 2), rows=WHOLE))
    assert prior.feature_map is None
    assert prior.is_gaussian


def test_indices_are_not_rounded_either() -> None:
    features = read(regression(looked_up, rows=WHOLE)).feature_map
    for one in (features, pickle.loads(pickle.dumps(features))):
        np.testing.assert_array_equal(one(np.array([[1.0, 2.5]])), [[0.0, 2.5, 0.0, 0.0]])
        with pytest.raises(DataError, match=r"holds 'x' as whole numbers and looks up tables by them, got 1\.5"):
            one(np.array([[1.5, 2.0]]))


@pytest.mark.parametrize("rows", [ROWS, WHOLE])
def test_places_that_a_table_does_not_have_are_told(rows: np.ndarray) -> None:
    def table(x):
        place = x[:, 0] if np.issubdtype(rows.dtype, np.integer) else pt.floor(x[:, 0] + 2.0).astype("int64")
        return normal("z", 4, 2)[place]

    features = read(regression(table, rows=rows)).feature_map
    with pytest.raises(DataError, match=r"first for x = \[7\."):
        features(np.array([[0.0, 0.0], [7.0, 0.0]]))


def test_places_that_a_table_of_numbers_does_not_have_are_told() -> None:
    features = read(regression(constant_table)).feature_map
    with pytest.raises(DataError, match="cannot be computed for these users: index 8 is out of bounds"):
        features(np.array([[7.0, 0.0]]))


# --- what is no belief ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mean",
    [
        lambda x: x @ normal("w", 2, 2) + normal("e", 3, 2)[np.arange(30) % 3],
        lambda x: x @ normal("w", 2, 2) + np.linspace(0.0, 1.0, 30)[:, None],
    ],
)
def test_a_value_for_each_user_of_the_model(mean: Mean) -> None:
    with pytest.raises(BeliefError, match=r"for the 30 users in 'x' only.*column of 'x'"):
        read(regression(mean))


def test_a_mean_that_fails() -> None:
    with pytest.raises(BeliefError, match="cannot be computed for the users in 'x': index 9"):
        read(regression(lambda x: normal("z", 4, 2)[pt.zeros(x.shape[0], dtype="int64") + 9] + 0.0 * x[:, [0]]))


def test_a_mean_without_latents() -> None:
    with pytest.raises(BeliefError, match=r"'mu' is the same in every draw.*coefficients of 'x'"):
        read(regression(lambda x: x + 1.0))


def test_a_mean_that_is_not_finite_for_some() -> None:
    with pytest.raises(BeliefError, match=r"not finite for some of the users in 'x', first for x = \[-"):
        read(regression(lambda x: x @ normal("w", 2, 2) + pt.log(x[:, [0]]) * normal("q", 2), rows=ROWS - 1.0))


def flat(x):
    return x @ pm.Flat("w", shape=(2, 2)) + pm.HalfFlat("h", shape=2)


def test_a_flat_prior_is_refused_where_nothing_is_observed() -> None:
    with pytest.raises(BeliefError, match=r"improper \(a Flat variable\): give the latents of 'mu' a proper prior"):
        read(regression(flat))


def test_a_flat_prior_is_read_where_something_is_observed() -> None:
    model = regression(flat)
    with model:
        pm.Normal("y", model["mu"], 1.0, observed=np.zeros((30, 2)))
    found = read_regression(model, mean="mu", inputs="x", arm="arm", feature="feature")
    assert found.basis.features == ("intercept", "u", "v")
    curved = regression(lambda x: pt.tanh(x @ pm.Flat("w", shape=(2, 2))))
    with curved:
        pm.Normal("y", curved["mu"], 1.0, observed=np.zeros((30, 2)))
    with pytest.raises(BeliefError, match=r"latents of 'mu', which is nonlinear, a proper prior"):
        read_regression(curved, mean="mu", inputs="x", arm="arm", feature="feature")


@pytest.mark.parametrize("word", ["mean", "inputs", "arm", "feature", "coefficients", "intercept"])
def test_names_that_are_none(word: str) -> None:
    words: dict[str, Any] = {"mean": "mu", "inputs": "x", word: 3}
    with pytest.raises(BeliefError, match=rf"{word}= must be a name in the model, a text, got 3"):
        rcb.Prior.from_pymc(regression(lambda x: x @ normal("w", 2, 2)), **words)


def test_observed_values_that_are_impossible() -> None:
    model = regression(lambda x: x @ normal("w", 2, 2))
    with model:
        pm.HalfNormal("y", 1.0, observed=[0.3, -1.0])
        pm.Normal("z", 0.0, 1.0, observed=[0.3, -1.0])
    with pytest.raises(BeliefError, match="observed values of 'y' are impossible under it"):
        read(model)


@pytest.mark.parametrize("name", ["ordered", "log"])
def test_transforms_that_keep_values_away(name: str) -> None:
    with pm.Model(coords=COORDS) as model:
        pm.Normal("beta", 0.0, 1.0, dims=("arm", "feature"), transform=getattr(transforms, name))
    with pytest.raises(BeliefError, match=rf"'beta' has a transform \({name}\).*from_draws"):
        rcb.Prior.from_pymc(model)


def test_transforms_that_keep_none_away() -> None:
    with pm.Model(coords=COORDS) as model:
        scale = pm.HalfNormal("scale", 1.0, default_transform=transforms.LogExpM1())
        width = pm.HalfNormal("width", 1.0, default_transform=None)
        pm.Normal("beta", 0.0, scale + width + pm.Uniform("u"), dims=("arm", "feature"))
    assert rcb.Prior.from_pymc(model).is_conditionally_gaussian


def rewards_of(kind: str) -> pm.Model:
    with pm.Model(coords=COORDS) as model:
        x = pm.Data("x", ROWS, dims=("user", "feature"))
        mu = pm.Deterministic("mu", x @ normal("w", 2, 2), dims=("user", "arm"))
        sigma = pm.HalfNormal("sigma", 1.0)
        if kind == "plain":
            pm.Normal("y", mu, sigma, dims=("user", "arm"))
        elif kind == "by user":
            pm.Normal("y", mu, sigma * pt.exp(x[:, [0]]), dims=("user", "arm"))
        else:
            pm.StudentT("y", 4, mu=mu, sigma=sigma, dims=("user", "arm"))
    return model


@pytest.mark.parametrize("kind", ["by user", "heavy tails"])
def test_another_noise_in_the_model_is_told(kind: str) -> None:
    with pytest.warns(BeliefWarning, match="'y' depends on 'sigma' otherwise than as Normal"):
        assert read(rewards_of(kind)).has_sigma


def test_the_noise_that_is_read_is_not_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", BeliefWarning)
        assert read(rewards_of("plain")).has_sigma
