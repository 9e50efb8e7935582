"""Nonlinear means told by their values at some users: against quadrature over the latents, and what is refused."""
# pyright: reportOptionalMemberAccess=false, reportOptionalCall=false, reportOptionalSubscript=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOperatorIssue=false, reportCallIssue=false, reportIndexIssue=false

import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError, BeliefWarning, MarketError
from rcb_bayes.posterior import Statistics, make_engine

ROWS = np.linspace(0.0, 2.0, 60)[:, None]
SIGMA = 0.2
HEIGHTS = {"normal": [(0.6, 0.2), (0.5, 0.4)], "lognormal": [(-0.6, 0.3), (-0.8, 0.6)]}


def saturating(kind: str = "normal", *, rows: np.ndarray = ROWS, rate: float = 0.5) -> pm.Model:
    """What a dose gives: a (1 - exp(-r dose)), nonlinear in the rate r."""
    centre, spread = (list(part) for part in zip(*HEIGHTS[kind], strict=True))
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["dose"]}) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        family = pm.Normal if kind == "normal" else pm.LogNormal
        a = family("a", centre, spread, dims="arm")
        r = pm.LogNormal("r", 0.0, rate, dims="arm")
        pm.Deterministic("mu", a * (1.0 - pt.exp(-r * x)), dims=("user", "arm"))
    return model


def network(rows: np.ndarray) -> pm.Model:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u", "v"]}) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        w, v = pm.Normal("w", 0.0, 1.0, shape=(2, 3)), pm.Normal("v", 0.2, 0.5, shape=(3, 2))
        pm.Deterministic("mu", pt.tanh(x @ w) @ v, dims=("user", "arm"))
    return model


def read(model: pm.Model) -> rcb.Prior:
    return rcb.Prior.from_pymc(model, mean="mu", inputs="x")


@pytest.fixture(scope="module")
def prior() -> rcb.Prior:
    return read(saturating())


def data_sets(prior: rcb.Prior, n_sets: int, n: int = 30):
    """Users, arms and rewards of worlds drawn from the belief's own latents."""
    rng = np.random.default_rng(8)
    x, arm = rng.uniform(0.0, 2.0, size=(n_sets, n, 1)), rng.integers(0, 2, size=(n_sets, n))
    mean = prior.expansion.weights.mean
    latents = mean.draw(n_sets, seed=3)
    at = [mean(x[m], [part[m : m + 1] for part in latents])[0] for m in range(n_sets)]
    y = np.stack([at[m][np.arange(n), arm[m]] for m in range(n_sets)]) + SIGMA * rng.standard_normal((n_sets, n))
    parts = [Statistics.from_rows(prior.feature_map(x[m]), arm=arm[m], reward=y[m], n_arms=2) for m in range(n_sets)]
    return x, arm, y, Statistics.joined(parts)


def by_quadrature(kind: str, x, arm, y, at):
    """Posterior mean and sd of mu(at, arm), (len(at), 2), on a grid of height and rate; arms are independent."""
    z = np.linspace(-6.0, 6.0, 401)
    rate = np.exp(0.5 * z)
    mean, spread = np.empty((len(at), 2)), np.empty((len(at), 2))
    for k, (centre, scale) in enumerate(HEIGHTS[kind]):
        height = centre + scale * z if kind == "normal" else np.exp(centre + scale * z)
        dose, reward = x[arm == k, 0], y[arm == k]
        f = 1.0 - np.exp(-rate[:, None] * dose)
        squares = (reward**2).sum() - 2.0 * height[:, None] * (f @ reward) + height[:, None] ** 2 * (f**2).sum(axis=1)
        log_weight = -0.5 * (z[:, None] ** 2 + z**2) - 0.5 * squares / SIGMA**2
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        g = 1.0 - np.exp(-rate[:, None] * at)
        mean[:, k] = height @ weight @ g
        spread[:, k] = np.sqrt(height**2 @ weight @ g**2 - mean[:, k] ** 2)
    return mean, spread


def gaps(prior: rcb.Prior, kind: str, batch, x, arm, y, *, shift: float = 0.0):
    """Distances of posterior means from quadrature, in posterior sd, (M, at, K)."""
    at = np.linspace(0.1, 1.9, 7)
    found = []
    for m in range(len(x)):
        mean, spread = by_quadrature(kind, x[m], arm[m], y[m], at)
        found.append((prior.feature_map(at[:, None]) @ batch.mean[m].T - mean) / spread + shift)
    return np.array(found)


def test_users_tell_one_another(prior: rcb.Prior) -> None:
    assert prior.inputs == ("dose",)
    assert prior.expansion.error < 2e-3
    assert prior.n_features == len(prior.expansion.anchors) < 8
    assert all(label.startswith("dose=") for label in prior.features)
    anchors = prior.expansion.anchors
    np.testing.assert_allclose(prior.feature_map(anchors), np.eye(len(anchors)), atol=1e-9)
    assert prior.arms_independent
    assert "nonlinear" in prior.describe()
    # prior means of other users, by quadrature over the rate: E[a] (1 - E exp(-r x))
    z = np.linspace(-8.0, 8.0, 4001)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    dose = np.array([0.33, 1.21, 1.77])
    share = 1.0 - np.exp(-np.exp(0.5 * z)[:, None] * dose)
    exact = np.array([0.6, 0.5])[:, None] * (weight @ share)
    found = prior.feature_map(dose[:, None]) @ prior.mean.values.T
    error = np.abs(prior.feature_map(dose[:, None])) @ prior.moments["mean_mcse"].values.T + 2e-3 * 0.2
    assert (np.abs(found - exact.T) < 4.0 * error + 1e-12).all()
    assert not (np.abs(found - 1.05 * exact.T) < 4.0 * error).all()


def test_a_fast_engine_where_the_rest_is_normal(prior: rcb.Prior) -> None:
    """Given the rates heights are normal: no NUTS is needed, and posterior means are those of quadrature."""
    engine = make_engine(prior, rcb.GaussianNoise(SIGMA))
    assert engine.name == "conditional"
    x, arm, y, data = data_sets(prior, 12)
    batch = engine.fit(data)
    assert batch.vouched.all()
    error = 1.0 / np.sqrt(batch.diagnostics["effective_size"])[:, None, None]
    assert (np.abs(gaps(prior, "normal", batch, x, arm, y)) < 4.5 * error + 0.01).all()
    assert not (np.abs(gaps(prior, "normal", batch, x, arm, y, shift=0.5)) < 4.5 * error + 0.01).all()


@pytest.mark.slow
def test_nuts_where_nothing_is_normal() -> None:
    prior = read(saturating("lognormal"))
    engine = make_engine(prior, rcb.GaussianNoise(SIGMA))
    assert engine.name == "nuts"
    x, arm, y, data = data_sets(prior, 12)
    batch = engine.fit(data)
    assert batch.vouched.all()
    error = batch.diagnostics["mean_error"][:, None, None]  # about the largest of the coefficients'
    assert (np.abs(gaps(prior, "lognormal", batch, x, arm, y)) < 2.0 * error + 0.01).all()
    assert not (np.abs(gaps(prior, "lognormal", batch, x, arm, y, shift=0.5)) < 2.0 * error + 0.01).all()


def test_a_net_of_two_covariates() -> None:
    rows = np.random.default_rng(1).uniform(-1.0, 1.0, size=(200, 2))
    prior = read(network(rows))
    assert prior.expansion.error < 0.01
    fresh = np.random.default_rng(2).uniform(-1.0, 1.0, size=(100, 2))
    assert prior.expansion.error_for(fresh) < 0.02
    beta, _ = prior.draw_arrays(20_000, rng=np.random.default_rng(3))
    values = np.einsum("nb,skb->snk", prior.feature_map(fresh[:5]), beta)
    w = np.random.default_rng(4).normal(0.0, 1.0, size=(20_000, 2, 3))
    v = np.random.default_rng(5).normal(0.2, 0.5, size=(20_000, 3, 2))
    twin = np.einsum("snh,shk->snk", np.tanh(np.einsum("np,sph->snh", fresh[:5], w)), v)
    for moment in (1, 2):
        mine, other = values**moment, twin**moment
        error = np.hypot(mine.std(axis=0), other.std(axis=0)) / np.sqrt(20_000)
        assert (np.abs(mine.mean(axis=0) - other.mean(axis=0)) < 4.5 * error).all()
    planted = 1.1 * values
    error = np.hypot(planted.std(axis=0), twin.std(axis=0)) / np.sqrt(20_000)
    assert not (np.abs((planted**2).mean(axis=0) - (twin**2).mean(axis=0)) < 4.5 * error).all()


def test_few_users_are_told_exactly() -> None:
    """A threshold at an unknown place, and as many anchors as users: nothing is left over."""
    rows = np.array([[0.1], [0.4], [0.6], [0.9]])
    prior = read(threshold(rows))
    assert prior.n_features == 4
    assert prior.expansion.error < 1e-8


def threshold(rows: np.ndarray) -> pm.Model:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u"]}) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        cut, gain = pm.Uniform("cut", 0.0, 1.0, dims="arm"), pm.Normal("gain", 0.0, 1.0, dims="arm")
        pm.Deterministic("mu", pt.where(x > cut, gain, 0.1), dims=("user", "arm"))
    return model


def test_what_a_few_users_do_not_tell_is_refused() -> None:
    with pytest.raises(BeliefError, match=r"do not tell what it gives the others.*Smooth what jumps"):
        read(threshold(np.linspace(0.0, 1.0, 400)[:, None]))


def test_users_it_was_not_read_for(prior: rcb.Prior) -> None:
    noise = rcb.GaussianNoise(SIGMA)
    rcb.Market(prior=prior, covariates=rcb.users.Uniform([0.0], [2.0], features=["dose"]), noise=noise)
    with pytest.raises(MarketError, match="was read for the users in its model's inputs; these are others"):
        rcb.Market(prior=prior, covariates=rcb.users.Uniform([5.0], [9.0], features=["dose"]), noise=noise)
    with pytest.warns(BeliefWarning, match="tells this market's users with an error of"):
        rcb.Market(prior=prior, covariates=rcb.users.Uniform([0.0], [4.0], features=["dose"]), noise=noise)


def test_a_mean_of_a_user_in_company() -> None:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u"]}) as model:
        x = pm.Data("x", ROWS, dims=("user", "feature"))
        w = pm.Normal("w", 0.0, 1.0, shape=(1, 2))
        pm.Deterministic("mu", pt.tanh((x - x.mean(axis=0)) @ w), dims=("user", "arm"))
    with pytest.raises(BeliefError, match="depends on other users"):
        read(model)


def test_it_travels(prior: rcb.Prior) -> None:
    again = pickle.loads(pickle.dumps(prior))
    assert again.features == prior.features
    x = np.array([[0.3], [1.7]])
    np.testing.assert_array_equal(again.feature_map(x), prior.feature_map(x))
    np.testing.assert_array_equal(prior.feature_map(x)[:1], prior.feature_map(x[:1]))  # alone and in company


@pytest.mark.filterwarnings("ignore:The belief is .* fitted to")  # its misfit is told, and looked at
def test_a_posterior_of_a_nonlinear_model() -> None:
    """Draws of the latents, as a sampler would give them, become a belief about what arms give."""
    model = saturating("lognormal")
    rng = np.random.default_rng(7)
    a = np.exp(rng.normal([-0.6, -0.4], 0.1, size=(2, 2000, 2)))
    r = np.exp(rng.normal([0.3, -0.2], 0.1, size=(2, 2000, 2)))
    import xarray as xr

    tree = xr.Dataset({"a": (("chain", "draw", "arm"), a), "r": (("chain", "draw", "arm"), r)})
    prior = rcb.Prior.from_posterior(tree, model=model, mean="mu", inputs="x")
    dose = np.array([0.4, 1.1])
    twin = a[..., None] * (1.0 - np.exp(-r[..., None] * dose))  # (chain, draw, arm, user)
    found = prior.mean.values @ prior.feature_map(dose[:, None]).T
    error = twin.std(axis=(0, 1)) / np.sqrt(4000)
    assert (np.abs(found - twin.mean(axis=(0, 1))) < 4.0 * error + 1e-3 * 0.1).all()
    assert prior.fit.misfit < 0.2
    with pytest.raises(BeliefError, match="no draws of 'r'"):
        rcb.Prior.from_posterior(tree[["a"]], model=model, mean="mu", inputs="x")
    with pytest.raises(BeliefError, match="pass model="):
        rcb.Prior.from_posterior(tree, mean="mu", inputs="x")


def test_from_gaps_to_a_recommender(prior: rcb.Prior) -> None:
    users = rcb.users.Uniform([0.0], [2.0], features=["dose"])
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(SIGMA))
    found = rcb.estimate_gaps(market, saturated=["old"], n_per_arm=20, n_worlds=100, taus=[0.01], seed=1)
    assert 0.0 < float(found["rho"].values.ravel()[0]) < 1.0
    plan = rcb.fixed_plan(market, epsilon=0.05, n_per_arm=8, exploration_rate=0.5)
    runs = rcb.simulate(market, plan, horizon=60, n_worlds=2, seed=1)
    assert np.isfinite(runs["regret"].values).all()
    agent = rcb.Recommender(market, plan, seed=1)
    recommendation = agent.recommend([0.7])
    agent.observe(0.3, ticket=recommendation.ticket)
    assert recommendation.arm in market.arms


@pytest.mark.slow
def test_planned_and_audited(prior: rcb.Prior) -> None:
    users = rcb.users.Uniform([0.0], [2.0], features=["dose"])
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(SIGMA))
    plan = rcb.calibrate(market, epsilon=0.05, n_per_arm=15, n_worlds=300, seed=1)
    assert plan.feasible
    assert "she expects" in plan.explain([0.5])
    found = rcb.audit(market, plan, horizon=500, n_worlds=400, seed=2)
    assert found.verdict == "pass"
    careless = rcb.fixed_plan(market, epsilon=-0.0 + 0.001, n_per_arm=15, exploration_rate=1.0)
    assert rcb.audit(market, careless, horizon=500, n_worlds=400, seed=2).verdict == "fail"
