"""Regressions as beliefs: the basis read off the graph, coefficients against plain Bayesian linear regression."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportIncompatibleMethodOverride=false

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError
from rcb_bayes.posterior import Statistics, make_engine
from rcb_bayes.posterior.scales import ScaleGrid

COORDS = {"arm": ["a", "b"], "feature": ["u", "v"]}
ROWS = np.random.default_rng(3).uniform(-1.0, 1.0, size=(30, 2))

Mean = Callable[[pt.TensorVariable], pt.TensorVariable]


def regression(mean: Mean, *, rows: np.ndarray = ROWS, dims: tuple[str, str] = ("user", "arm")) -> pm.Model:
    coords = COORDS | {"feature": COORDS["feature"][: rows.shape[1]]}
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        pm.Deterministic("mu", mean(x), dims=dims)
    return model


def normal(name: str, *shape: int, mu: float = 0.2, sigma: float = 0.5) -> pt.TensorVariable:
    return pm.Normal(name, mu, sigma, shape=shape)


def read(model: pm.Model) -> rcb.Prior:
    return rcb.Prior.from_pymc(model, mean="mu", inputs="x")


def plain(x):
    return x @ normal("w", 2, 2)


def quadratic(x):
    return normal("b", 2) + x @ normal("w", 2, 2) + x**2 @ normal("q", 2, 2)


def interaction(x):
    return (x[:, 0] * x[:, 1])[:, None] * normal("c", 2) + (normal("d", 2) * x[:, 0][:, None] + 1.0) * x[:, 1][
        :, None
    ] ** 2


def split_factors(x):
    """A latent on either side of x, and x on either side of a latent."""
    return normal("c", 2) * x[:, 0][:, None] * normal("d", 2, sigma=0.01) * x[:, 1][:, None]


def by_group(x):
    group = pt.sum(x[:, 0][:, None] > np.array([-0.3, 0.4]), axis=1)
    return normal("g", 3, 2)[group] + normal("h", 2, 3)[:, group].T * x[:, 0][:, None]


def switched(x):
    w = normal("w", 2)
    return pt.switch(x[:, 0] > 0.2, w[0], w[1])[:, None] * normal("s", 2, sigma=0.1)


def scaled_inside(x):
    """Scales that multiply the basis before the coefficients do."""
    scale = pm.HalfNormal("scale", 1.0)
    return (pt.sin(x) * scale) @ normal("w", 2, 2)


def joined(x):
    return pt.stack([x[:, 0] * normal("w", 1)[0], pt.exp(x[:, 1]) * normal("v", 1)[0]], axis=1)


MEANS = [plain, quadratic, interaction, split_factors, by_group, switched, scaled_inside, joined]


@pytest.mark.parametrize("mean", MEANS)
def test_features_times_coefficients_are_the_mean_at_other_users(mean):
    model = regression(mean)
    prior = read(model)
    x = np.random.default_rng(8).uniform(-1.2, 1.2, size=(50, 2))
    features = x if prior.feature_map is None else prior.feature_map(x)
    beta = prior.model["beta"]
    mu, coefficients = pm.draw(
        [_fed(prior, x), beta], random_seed=5, mode="FAST_COMPILE"
    )  # the same latents behind both
    np.testing.assert_allclose(mu, features @ coefficients.T, rtol=1e-8, atol=1e-10)
    assert np.abs(mu - features @ (coefficients * 1.001).T).max() > 1e-6


def _fed(prior: rcb.Prior, x: np.ndarray) -> pt.TensorVariable:
    """The model's own mean with other users in."""
    prior.model["x"].set_value(x)
    return prior.model["mu"]


def test_the_users_own_model_is_left_alone():
    model = regression(quadratic)
    names = set(model.named_vars)
    read(model)
    assert set(model.named_vars) == names
    np.testing.assert_array_equal(model["x"].get_value(), ROWS)


def test_a_plain_regression_is_the_belief_about_beta():
    prior = read(regression(plain))
    assert prior.feature_map is None
    assert prior.features == ("u", "v")
    assert prior.is_gaussian
    np.testing.assert_allclose(prior.mean.values, 0.2)


def test_labels_are_those_of_x_where_a_function_is_x():
    assert read(regression(quadratic)).features == ("intercept", "u", "v", "basis_2", "basis_3")


def test_groups_that_nobody_is_in_keep_their_effects():
    """The rows that a model comes with say nothing about the users to come."""

    def grouped(x):
        return normal("g", 5, 2)[x[:, 0].astype("int64")]

    rows = np.tile([0.0, 1.0], 4)[:, None]
    prior = read(regression(grouped, rows=rows))
    np.testing.assert_array_equal(prior.feature_map(np.array([[3.0]])), np.eye(5)[[3]])


@pytest.mark.parametrize("order", [("user", "arm"), ("arm", "user")])
def test_dims_of_the_mean_in_either_order(order):
    model = regression(lambda x: plain(x) if order[0] == "user" else plain(x).T, dims=order)
    np.testing.assert_allclose(read(model).mean.values, 0.2)


def test_other_names_of_dims():
    with pm.Model(coords={"treatment": ["a", "b"], "column": ["u", "v"]}) as model:
        x = pm.Data("inputs", ROWS, dims=("patient", "column"))
        pm.Deterministic("eta", x @ normal("w", 2, 2), dims=("patient", "treatment"))
    prior = rcb.Prior.from_pymc(model, mean="eta", inputs="inputs", arm="treatment", feature="column")
    assert prior.arms == ("a", "b")
    assert prior.features == ("u", "v")


def test_a_variable_called_beta_may_be_something_else():
    prior = read(regression(lambda x: x @ pm.Normal("beta", 0.1, 1.0, shape=(2, 2)).T))
    assert prior.is_gaussian
    np.testing.assert_allclose(prior.mean.values, 0.1)


# --- exact against plain NumPy ----------------------------------------------------------------------------------------


def posterior_mean(phi, y, mean, cov, sigma):
    """Bayesian linear regression, by the textbook."""
    gain = cov @ phi.T @ np.linalg.inv(phi @ cov @ phi.T + sigma**2 * np.eye(len(y)))
    return mean + gain @ (y - phi @ mean)


def data_of(prior: rcb.Prior, x: np.ndarray, arm: np.ndarray, y: np.ndarray) -> Statistics:
    return Statistics.from_rows(prior.feature_map(x), arm=arm, reward=y, n_arms=prior.n_arms)


def test_polynomials_against_bayesian_linear_regression():
    prior = read(regression(quadratic))
    rng = np.random.default_rng(2)
    x, arm = rng.uniform(-1, 1, size=(40, 2)), np.arange(40) % 2
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(40)
    found = make_engine(prior, rcb.GaussianNoise(0.3)).fit(data_of(prior, x, arm, y)).mean[0]
    for k in range(2):
        own = x[arm == k]
        phi = np.column_stack([np.ones(len(own)), own, own**2])
        expected = posterior_mean(phi, y[arm == k], np.full(5, 0.2), 0.25 * np.eye(5), 0.3)
        np.testing.assert_allclose(found[k], expected, atol=1e-8)
        wrong = posterior_mean(phi, y[arm == k], np.full(5, 0.2), 0.26 * np.eye(5), 0.3)
        assert np.abs(found[k] - wrong).max() > 1e-5


def test_splines_against_bayesian_linear_regression():
    prior = rcb.load_prior("splines", mean=[0.3, 0.1], scale=0.4, bend=0.7)
    rng = np.random.default_rng(2)
    x, arm = rng.uniform(-1, 1, size=(60, 1)), np.arange(60) % 2
    y = np.abs(x[:, 0]) + 0.2 * rng.standard_normal(60)
    found = make_engine(prior, rcb.GaussianNoise(0.2)).fit(data_of(prior, x, arm, y)).mean[0]
    new = np.linspace(-1, 1, 11)[:, None]

    def basis(t):
        return np.column_stack([t**0, t, t**2, t**3, *(np.maximum(t - knot, 0.0) ** 3 for knot in (-0.5, 0.0, 0.5))])

    cov = np.diag([0.16] * 4 + [0.49] * 3)
    for k, level in enumerate((0.3, 0.1)):
        mean = np.array([level, 0, 0, 0, 0, 0, 0])
        expected = posterior_mean(basis(x[arm == k]), y[arm == k], mean, cov, 0.2)
        np.testing.assert_allclose(prior.feature_map(new) @ found[k], basis(new) @ expected, atol=1e-8)


def matern(a, b, *, amplitude, length):
    r = np.sqrt(5.0) * np.abs(a - b.T) / length
    return amplitude**2 * (1 + r + r**2 / 3) * np.exp(-r)


def sines(t, *, n, reach):
    j = np.arange(1, n + 1)
    return np.sin(np.pi * j * (t + reach) / (2 * reach)) / np.sqrt(reach), np.pi * j / (2 * reach)


def density(omega, *, amplitude, length):
    """The spectral density of Matern 5/2 in one dimension."""
    return amplitude**2 * 16 / 3 * 5**2.5 / length**5 / (5 / length**2 + omega**2) ** 3


@pytest.mark.parametrize("n_basis", [10, 40])
def test_a_known_hsgp_against_the_gaussian_process_itself(n_basis):
    known = {"amplitude": 0.5, "length": 0.6}
    prior = rcb.load_prior("smooth", **known, n_basis=n_basis, level=0.2, reach=3.0)
    assert prior.is_gaussian
    rng = np.random.default_rng(2)
    x, arm = rng.uniform(-1, 1, size=(40, 1)), np.arange(40) % 2
    y = np.sin(4 * x[:, 0]) + 0.2 * rng.standard_normal(40)
    found = make_engine(prior, rcb.GaussianNoise(0.2)).fit(data_of(prior, x, arm, y)).mean[0]
    new = np.linspace(-1, 1, 9)[:, None]
    own, outcome = x[arm == 0], y[arm == 0]
    noise = 0.04 * np.eye(len(own))

    def predicted(kernel):
        return (kernel(new, own) + 0.04) @ np.linalg.solve(kernel(own, own) + 0.04 + noise, outcome)

    def approximate(a, b):
        (left, omega), (right, _) = (sines(part, n=n_basis, reach=3.0) for part in (a, b))
        return (left * density(omega, **known)) @ right.T

    answer = prior.feature_map(new) @ found[0]
    np.testing.assert_allclose(answer, predicted(approximate), atol=1e-8)
    exact = predicted(lambda a, b: matern(a, b, **known))
    assert np.abs(answer - exact).max() < (0.2 if n_basis == 10 else 2e-3)  # the approximation's own error shrinks


def test_a_shared_curve_couples_the_arms_as_its_twin_does():
    prior = rcb.load_prior("shared", scale=0.3, amplitude=0.5, length=0.6)
    assert prior.groups == ((0, 1),)
    x = np.array([[-0.8], [0.1], [0.7]])
    phi = prior.feature_map(x)
    joint = prior.covariance.values.reshape(28, 28)
    wide = np.kron(np.eye(2), phi)
    left, omega = sines(x, n=12, reach=1.6)
    curve = (left * density(omega, amplitude=0.5, length=0.6)) @ left.T
    departures = 0.09 * (1 + x @ x.T)
    expected = np.kron(np.ones((2, 2)), curve) + np.kron(np.eye(2), departures)
    np.testing.assert_allclose(wide @ joint @ wide.T, expected, atol=1e-10)


def test_segments_have_the_covariance_of_their_twin():
    prior = rcb.load_prior("grouped", tau=0.4, scale=0.2, cuts=[0.0])
    x = np.array([[-0.8], [-0.1], [0.7]])
    phi = prior.feature_map(x)
    same = (x > 0) == (x > 0).T
    expected = 0.16 * same + 0.04 * x @ x.T
    assert prior.features == ("basis_0", "basis_1", "feature_0")
    cov = prior.covariance.sel(arm="arm_0", arm_2="arm_0").values
    np.testing.assert_allclose(phi @ cov @ phi.T, expected, atol=1e-10)


def test_one_unknown_scale_is_integrated_as_by_plain_quadrature():
    prior = rcb.load_prior("grouped", tau_scale=0.5, scale=0.2, cuts=[0.0])
    rng = np.random.default_rng(1)
    x, arm = rng.uniform(-1, 1, size=(30, 1)), np.arange(30) % 2
    y = np.where(x[:, 0] > 0, 0.6, -0.2) + 0.3 * rng.standard_normal(30)
    found = make_engine(prior, rcb.GaussianNoise(0.3)).fit(data_of(prior, x, arm, y)).mean[0]
    new = np.array([[-0.5], [0.5]])

    def kernel(a, b, tau):
        return tau**2 * ((a > 0) == (b > 0).T) + 0.04 * a @ b.T

    taus = np.exp(np.linspace(-7, 1.5, 600))
    log_weight, predictions = [], []
    for tau in taus:
        fit, total = [], -0.5 * (tau / 0.5) ** 2 + np.log(tau)
        for k in range(2):
            own, outcome = x[arm == k], y[arm == k]
            joint = kernel(own, own, tau) + 0.09 * np.eye(len(own))
            total -= 0.5 * (outcome @ np.linalg.solve(joint, outcome) + np.linalg.slogdet(joint)[1])
            fit.append(kernel(new, own, tau) @ np.linalg.solve(joint, outcome))
        log_weight.append(total)
        predictions.append(fit)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    expected = np.tensordot(weight / weight.sum(), np.array(predictions), axes=1)
    np.testing.assert_allclose(found @ prior.feature_map(new).T, expected, atol=2e-4)


def by_quadrature(x, new, arm, y, *, n, reach, log_lengths, log_prior, spectrum):
    """Means of new users by plain quadrature over an amplitude, HalfNormal(.5), and a length, of a level N(0, .2^2)."""
    (left, omega), (right, _) = (sines(part, n=n, reach=reach) for part in (x, new))
    log_weight, predictions = [], []
    for log_a in np.linspace(-7, 1.5, 60):
        for log_l in log_lengths:
            psd = spectrum(omega, amplitude=np.exp(log_a), length=np.exp(log_l))
            total = -0.5 * (np.exp(log_a) / 0.5) ** 2 + log_a + log_prior(log_l)
            fit = []
            for k in range(2):
                phi, outcome = left[arm == k], y[arm == k]
                joint = (phi * psd) @ phi.T + 0.04 + 0.09 * np.eye(len(phi))
                total -= 0.5 * (outcome @ np.linalg.solve(joint, outcome) + np.linalg.slogdet(joint)[1])
                fit.append(((right * psd) @ phi.T + 0.04) @ np.linalg.solve(joint, outcome))
            log_weight.append(total)
            predictions.append(fit)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    return np.tensordot(weight / weight.sum(), np.array(predictions), axes=1)


def curves():
    rng = np.random.default_rng(1)
    x, arm = rng.uniform(-1, 1, size=(40, 1)), np.arange(40) % 2
    return x, arm, np.sin(3 * x[:, 0]) * (1 - arm) + 0.3 * rng.standard_normal(40)


def test_two_unknown_scales_are_integrated_as_by_plain_quadrature():
    prior = rcb.load_prior("smooth", amplitude_scale=0.5, n_basis=8, level=0.2)
    x, arm, y = curves()
    batch = make_engine(prior, rcb.GaussianNoise(0.3)).fit(data_of(prior, x, arm, y))
    assert batch.vouched[0]
    assert batch.engine[0] == "conditional"
    new = np.array([[-0.5], [0.5]])
    lengths = np.linspace(np.log(0.7) - 1.6, np.log(0.7) + 1.6, 60)
    log_prior = lambda log_l: -0.5 * ((log_l - np.log(0.7)) / 0.4) ** 2  # noqa: E731
    expected = by_quadrature(x, new, arm, y, n=8, reach=1.6, log_lengths=lengths, log_prior=log_prior, spectrum=density)
    np.testing.assert_allclose(batch.mean[0] @ prior.feature_map(new).T, expected, atol=1e-3)


def gaussian_spectrum(omega, *, amplitude, length):
    """Of a squared exponential: coefficients of high frequencies have no spread to speak of, or some."""
    return amplitude**2 * np.sqrt(2 * np.pi) * length * np.exp(-0.5 * (omega * length) ** 2)


@pytest.mark.parametrize("family", ["inverse gamma", "log-normal"])
def test_a_squared_exponential_of_unknown_length_is_integrated_too(family):
    """On its lattice alone: hundreds of draws would cost ten times as much."""
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["u"]}) as model:
        x = pm.Data("x", np.linspace(-1, 1, 20)[:, None], dims=("user", "feature"))
        eta = pm.HalfNormal("eta", 0.5)
        ell = pm.InverseGamma("ell", 5.0, 3.0) if family == "inverse gamma" else pm.LogNormal("ell", -0.4, 0.4)
        process = pm.gp.HSGP(m=[20], L=[1.6], cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=ell))
        phi, root = process.prior_linearized(x)
        mu = pm.Normal("level", 0.0, 0.2, shape=2) + phi @ (pm.Normal("z", 0.0, 1.0, shape=(20, 2)) * root[:, None])
        pm.Deterministic("mu", mu, dims=("user", "arm"))
    prior = read(model)
    assert prior.has_finite_variance
    x, arm, y = curves()
    assert prior.conditional_lattices is not None
    (lattice,) = prior.conditional_lattices
    batch = ScaleGrid.of(lattice, sigma=0.3).fit(data_of(prior, x, arm, y), covariance=False)
    assert batch.vouched[0]
    new = np.array([[-0.5], [0.5]])
    if family == "inverse gamma":
        log_prior = lambda log_l: -5.0 * log_l - 3.0 / np.exp(log_l)  # noqa: E731
    else:
        log_prior = lambda log_l: -0.5 * ((log_l + 0.4) / 0.4) ** 2  # noqa: E731
    lengths = np.linspace(-2.2, 1.6, 80)
    words = {"n": 20, "reach": 1.6, "log_lengths": lengths, "log_prior": log_prior, "spectrum": gaussian_spectrum}
    expected = by_quadrature(x, new, arm, y, **words)
    found = batch.mean[0].reshape(2, -1) @ prior.feature_map(new).T
    np.testing.assert_allclose(found, expected, atol=1e-3)
    off = by_quadrature(x, new, arm, y, **words | {"log_prior": lambda log_l: log_prior(log_l) + log_l})
    assert np.abs(found - off).max() > 1e-3


def smooth():
    return rcb.load_prior("smooth", n_basis=10, mean=[0.3, 0.1])


def loose_splines():
    """Kinks of unknown size, one scale for each arm."""

    def mean(x):
        bend = pm.HalfNormal("bend", 0.5, shape=2)
        kinks = pt.maximum(x[:, 0][:, None] - np.array([-0.5, 0.0, 0.5]), 0.0) @ (
            bend * normal("z", 3, 2, mu=0.0, sigma=1.0)
        )
        return normal("level", 2) + x @ normal("slope", 1, 2) + kinks

    return read(regression(mean, rows=np.linspace(-1.0, 1.0, 30)[:, None]))


@pytest.mark.slow
@pytest.mark.parametrize("belief", [smooth, loose_splines])
def test_unknown_scales_against_long_chains(belief):
    prior = belief()
    rng = np.random.default_rng(1)
    x, arm = rng.uniform(-1, 1, size=(60, 1)), np.arange(60) % 2
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(60)
    noise = rcb.GaussianNoise(0.3)
    data = {"x": x, "arm": arm, "reward": y}
    found = make_engine(prior, noise).fit(data_of(prior, x, arm, y)).mean[0]
    with rcb.posterior_model(prior, data, noise):
        tree = pm.sample(draws=5000, tune=2000, chains=4, cores=1, random_seed=1, target_accept=0.95, progressbar=False)
    import arviz as az

    draws = tree["posterior"]["beta"]
    mean, error = draws.mean(("chain", "draw")).values, np.asarray(az.mcse(draws, method="mean"))
    assert (np.abs(found - mean) / error).max() < 5.0
    assert (np.abs(found + 0.1 * draws.std(("chain", "draw")).values - mean) / error).max() > 5.0


# --- what is no such belief -------------------------------------------------------------------------------------------


def noisy(x):
    return pm.Normal("noisy", x @ normal("w", 2, 2), 0.1)


def latent_process(x):
    process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
    return process.prior("f", X=x)[:, None] * normal("w", 2)


def in_company(x):
    return (x - x.mean(axis=0)) @ normal("w", 2, 2)


def constant(x):
    return pt.zeros((x.shape[0], 2)) + normal("w", 2)


BAD = [
    (noisy, "random given the latents: 'noisy'"),
    (latent_process, "random given the latents.*HSGP"),
    (in_company, "depends on other users"),
    (constant, "does not depend on 'x'"),
]


@pytest.mark.parametrize(("mean", "message"), BAD)
def test_means_that_are_no_belief(mean, message):
    model = regression(mean)
    names = set(model.named_vars)
    with pytest.raises(BeliefError, match=message):
        read(model)
    assert set(model.named_vars) == names


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mean": "mu"}, "pass inputs="),
        ({"inputs": "x"}, "pass mean="),
        ({"mean": "mux", "inputs": "x"}, "no variable 'mux'.*Did you mean 'mu'"),
        ({"mean": "mu", "inputs": "w"}, "must be data"),
        ({"mean": "mu", "inputs": "x", "feature": "covariate"}, r"dims \('user', 'covariate'\), got"),
        ({"mean": "mu", "inputs": "x", "arm": "treatment"}, r"dims \('user', 'treatment'\), got"),
        ({"mean": "mu", "inputs": "x", "intercept": "w"}, "leave intercept= out"),
        ({}, "mean='mu', inputs='x'"),
    ],
)
def test_requests_that_do_not_fit(asked, message):
    model = regression(plain)
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.from_pymc(model, **asked)


def test_other_data_by_user_are_to_be_columns():
    with pm.Model(coords=COORDS) as model:
        x = pm.Data("x", ROWS, dims=("user", "feature"))
        t = pm.Data("t", np.ones(30), dims="user")
        pm.Deterministic("mu", x @ normal("w", 2, 2) + t[:, None], dims=("user", "arm"))
    with pytest.raises(BeliefError, match="make it a column of 'x'"):
        read(model)
