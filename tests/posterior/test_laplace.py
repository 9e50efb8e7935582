"""Bernoulli rewards: Laplace proposals with importance weights, against quadrature in one and two features."""

from typing import Any

import numpy as np
import pymc
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.market.noise import BernoulliLogit
from rcb_bayes.posterior import PosteriorBatch, Rows, make_engine
from rcb_bayes.posterior import laplace as laplace_module
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.logit import modes, signed_design
from rcb_bayes.posterior.nuts import NutsEngine, NutsSettings
from rcb_bayes.posterior.proposal import moment_surrogate
from rcb_bayes.posterior.student import student_base
from rcb_bayes.schema import FloatArray
from tests.posterior import twins
from tests.posterior.references import LIMIT, LogitMoments, bernoulli_rows, logit_quadrature

pm: Any = pymc  # its annotations do not fit its own use
GAUSSIAN = twins.Belief(
    build=lambda d: Prior.gaussian(np.zeros((2, d)), 1.0),
    log_density=lambda b: -0.5 * (b**2).sum(axis=-1),
    knots=(0.0,),
    scale=1.0,
)
HEAVY = twins.Belief(
    build=twins.from_gallery("student_t", nu=3.0, scale=1.0),
    log_density=lambda b: twins.log_student(b, 3.0, 0.0, 1.0).sum(axis=-1),
    knots=(0.0,),
    scale=1.0,
)
WIDE_CAMPS = ((0.3, 0.7), (2.0, -2.0), (0.3, 0.6))
CAMPS = twins.Belief(
    build=lambda d: twins.two_camps(*WIDE_CAMPS, n_features=d),
    log_density=twins.log_two_camps(*WIDE_CAMPS),
    knots=(2.0, -2.0),
    scale=0.3,
)
BELIEFS = {
    "gaussian": GAUSSIAN,
    "student_t": HEAVY,
    "mixture": CAMPS,
    "gamma": twins.BELIEFS["gamma"],
    "lognormal": twins.BELIEFS["lognormal"],
    "laplace": twins.BELIEFS["laplace"],
}
SIZES = (1, 5, 30, 100)
USERS = {1: np.array([[1.0], [-2.0], [0.3]]), 2: np.array([[1.0, 0.5], [-2.0, 1.0], [0.0, 1.0]])}


def exact(belief: twins.Belief, rows: Rows) -> list[list[LogitMoments]]:
    """Moments of every arm (outer) and data set (inner)."""
    users = USERS[rows.x.shape[2]]
    return [
        list(logit_quadrature(belief.log_density, rows, arm=k, users=users, knots=belief.knots, scale=belief.scale))
        for k in range(rows.n_arms)
    ]


def largest_z(mean: FloatArray, batch: PosteriorBatch, reference: list[list[LogitMoments]]) -> float:
    """The largest distance of means (M, K, d) from quadrature, over vouched data sets, in Monte Carlo errors."""
    truth = np.stack([[one.mean for one in arm] for arm in reference], axis=1)
    sd = np.stack([[one.sd for one in arm] for arm in reference], axis=1)
    error = sd / np.sqrt(batch.diagnostics["effective_size"])[:, None, None]
    return float((np.abs(mean - truth) / error)[batch.vouched].max())


@pytest.fixture(scope="module")
def engines() -> dict[tuple[str, int], LaplaceEngine]:
    return {}


def engine_of(name: str, d: int, kept: dict[tuple[str, int], LaplaceEngine]) -> LaplaceEngine:
    if (name, d) not in kept:
        kept[name, d] = LaplaceEngine(BELIEFS[name].build(d))
    return kept[name, d]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", BELIEFS)
@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_moments_are_those_of_quadrature(name: str, n: int, d: int, engines):
    engine = engine_of(name, d, engines)
    rows = bernoulli_rows(engine.prior, n, n_sets=16 if d == 1 else 8, seed=n)
    batch = engine.fit(rows, covariance=True, users=USERS[d])
    reference = exact(BELIEFS[name], rows)

    assert batch.vouched.mean() > 0.9
    assert largest_z(batch.mean, batch, reference) < LIMIT
    assert batch.covariance is not None
    assert batch.reward is not None
    for k, arm in enumerate(reference):
        for m in np.flatnonzero(batch.vouched):
            spread = arm[m].reward * (1.0 - arm[m].reward)  # at least the posterior variance of the mean reward
            error = np.sqrt(spread / batch.diagnostics["effective_size"][m])
            assert (np.abs(batch.reward[m, :, k] - arm[m].reward) < LIMIT * error).all()
            if name == "student_t":
                continue  # three degrees of freedom: no Monte Carlo estimate of a variance has an error of its own
            own = batch.covariance[m][k * d : (k + 1) * d, k * d : (k + 1) * d]
            scale = np.outer(arm[m].sd, arm[m].sd)
            # Heavy tails make the error of a variance several times that of a Gaussian's, sqrt(2 / n).
            tolerance = 3.0 * LIMIT * np.sqrt(2.0 / batch.diagnostics["effective_size"][m])
            assert (np.abs(own - arm[m].covariance) < tolerance * scale).all()


def test_the_mode_is_not_the_mean(engines):
    """What Laplace's approximation gives without the weights fails the same comparison."""
    engine = engine_of("lognormal", 1, engines)
    rows = bernoulli_rows(engine.prior, 30, n_sets=16, seed=30)
    batch, reference = engine.fit(rows), exact(BELIEFS["lognormal"], rows)
    blocks = engine._surrogate.blocks
    peaks = np.stack([modes(block, signed_design(rows, block.arms), None)[0] for block in blocks], axis=1)[:, :, 0]
    assert largest_z(batch.mean, batch, reference) < LIMIT < largest_z(peaks, batch, reference)


def test_the_reward_of_the_mean_is_not_the_mean_reward(engines):
    engine = engine_of("gaussian", 1, engines)
    rows = bernoulli_rows(engine.prior, 5, n_sets=16, seed=5)
    batch = engine.fit(rows, users=USERS[1])
    assert batch.reward is not None
    truth = np.stack([[one.reward for one in arm] for arm in exact(GAUSSIAN, rows)], axis=2)  # (M, U, K)
    plugged = 1.0 / (1.0 + np.exp(-np.einsum("ud,mkd->muk", USERS[1], batch.mean)))
    # Four errors of a mean reward with a posterior sd of at most .2, from as many draws as are vouched for.
    allowed = 4.0 * 0.2 / np.sqrt(batch.diagnostics["effective_size"].min())
    assert np.abs(batch.reward - truth).max() < allowed < 0.06 < np.abs(plugged - truth).max()


def test_no_camp_is_lost(engines):
    """Components in turn along one Sobol sequence gave every camp a biased part of its draws: .8 sd, unnoticed."""
    engine = engine_of("mixture", 1, engines)
    component, _, base = student_base(4096, 1, n_components=2, seed=(0, 1))
    for c in range(2):
        own = base[component == c, 0]
        assert len(own) == pytest.approx(2048, abs=2)
        assert np.median(own) == pytest.approx(0.0, abs=0.02)
        assert np.quantile(own, 0.9) == pytest.approx(-np.quantile(own, 0.1), abs=0.05)
    rows = bernoulli_rows(engine.prior, 2, n_sets=64, seed=9)
    reference = exact(CAMPS, rows)
    batch = engine.fit(rows)
    assert batch.vouched.all()
    assert largest_z(batch.mean, batch, reference) < LIMIT


@pytest.mark.parametrize("width", [1e-3, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_a_spike_is_not_missed(width: float):
    """Draws around a smooth mode hit next to nothing of it, and their weights do not tell: .5 sd, unnoticed."""
    parts = [pm.StudentT.dist(nu=4.0, mu=0.0, sigma=1.0), pm.StudentT.dist(nu=4.0, mu=0.8, sigma=width)]
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["x"]}) as model:
        pm.Mixture("beta", w=[0.6, 0.4], comp_dists=parts, dims=("arm", "feature"))
    steps = width * np.geomspace(0.5, 64.0, 8)
    spike = twins.Belief(
        build=lambda d: Prior.from_pymc(model),
        log_density=lambda b: np.logaddexp(
            np.log(0.6) + twins.log_student(b, 4.0, 0.0, 1.0), np.log(0.4) + twins.log_student(b, 4.0, 0.8, width)
        ).sum(axis=-1),
        knots=(0.0, 0.8, *(0.8 + steps), *(0.8 - steps)),
        scale=1.0,
    )
    engine = LaplaceEngine(spike.build(1))
    for n in (2, 20):
        rows = bernoulli_rows(engine.prior, n, n_sets=12, seed=n)
        batch, reference = engine.fit(rows), exact(spike, rows)
        assert batch.vouched.mean() > 0.8
        assert largest_z(batch.mean, batch, reference) < LIMIT
    # As if it had no spike, neither among its components nor in its coordinates.
    surrogate = moment_surrogate(engine.prior)
    engine.__dict__.update({"_surrogate": surrogate, "_scores": [None, None], "_blocks": list(surrogate.blocks)})
    batch = engine.fit(rows)
    assert not batch.vouched.all() or largest_z(batch.mean, batch, reference) > LIMIT


@pytest.mark.parametrize("n", [6, 40])
@pytest.mark.parametrize("name", ["gaussian", "student_t", "lognormal"])
def test_separable_data(name: str, n: int, engines):
    """Outcomes that are all alike bound the coefficient on one side only: the belief's tail is the posterior's.

    Forty alike outcomes of users who should not be sure of any are next to impossible under the belief. They put the
    coefficient hundreds of scales away from it, where normal scores follow.
    """
    engine = engine_of(name, 1, engines)
    scales = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 30.0])[:, None, None]
    x = scales * np.abs(np.random.default_rng(0).standard_normal((6, n, 1)))
    rows = Rows(x=x, arm=np.zeros((6, n), dtype=int), reward=np.ones((6, n)), n_arms=2)
    batch = engine.fit(rows)
    assert np.isfinite(batch.mean).all()
    assert batch.vouched.all()
    assert largest_z(batch.mean, batch, exact(BELIEFS[name], rows)) < LIMIT


def test_arms_without_rows_keep_their_prior(engines):
    engine = engine_of("student_t", 1, engines)
    rows = Rows(
        x=np.ones((2, 3, 1)), arm=np.zeros((2, 3), dtype=int), reward=np.array([[1, 1, 0], [0, 0, 0.0]]), n_arms=2
    )
    batch = engine.fit(rows, covariance=True, users=USERS[1])
    assert batch.covariance is not None
    assert batch.reward is not None
    np.testing.assert_array_equal(batch.mean[:, 1], 0.0)
    np.testing.assert_allclose(batch.covariance[:, 1, 1], engine.prior.covariance.values[1, 0, 1, 0])
    np.testing.assert_array_equal(batch.covariance[:, 0, 1], 0.0)
    np.testing.assert_allclose(batch.reward[:, :, 1], 0.5, atol=0.02)  # the belief is symmetric
    assert (np.abs(batch.mean[:, 0]) > 0.05).all()


def test_no_rows_at_all(engines):
    engine = engine_of("gamma", 1, engines)
    batch = engine.fit(Rows(x=np.zeros((1, 0, 1)), arm=np.zeros((1, 0), dtype=int), reward=np.zeros((1, 0)), n_arms=2))
    np.testing.assert_allclose(batch.mean, 0.5, rtol=1e-12)
    assert batch.vouched.all()


def test_padding_and_arm_order_change_nothing(engines):
    engine = engine_of("student_t", 1, engines)
    rows = bernoulli_rows(engine.prior, 12, n_sets=8, seed=3)
    padded = Rows(
        x=np.concatenate([np.full((8, 5, 1), 7.0), rows.x], axis=1),
        arm=np.concatenate([np.full((8, 5), -1), rows.arm], axis=1),
        reward=np.concatenate([np.ones((8, 5)), rows.reward], axis=1),
        n_arms=2,
    )
    plain = engine.fit(rows)
    np.testing.assert_allclose(engine.fit(padded).mean, plain.mean, rtol=1e-9, atol=1e-12)
    swapped = engine.fit(Rows(x=rows.x, arm=1 - rows.arm, reward=rows.reward, n_arms=2))
    sd = 2.0 / np.sqrt(plain.diagnostics["effective_size"])[:, None, None]  # not below the prior's sd of 1.7
    assert (np.abs(swapped.mean[:, ::-1] - plain.mean) < LIMIT * sd).all()


def test_chunks_change_nothing(engines, monkeypatch: pytest.MonkeyPatch):
    engine = engine_of("student_t", 1, engines)
    rows = bernoulli_rows(engine.prior, 40, n_sets=20, seed=4)
    whole = engine.fit(rows, covariance=True, users=USERS[1])
    monkeypatch.setattr(laplace_module, "_CHUNK_VALUES", 3000)
    pieces = engine.fit(rows, covariance=True, users=USERS[1])
    for name in ("mean", "covariance", "reward"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-8, atol=1e-11)


def test_users_of_each_data_set(engines):
    engine = engine_of("gaussian", 2, engines)
    rows = bernoulli_rows(engine.prior, 10, n_sets=9, seed=1)
    shared = engine.fit(rows, users=USERS[2]).reward
    own = np.broadcast_to(USERS[2], (9, *USERS[2].shape)).copy()
    own[4] *= -1.0
    found = engine.fit(rows, users=own).reward
    assert shared is not None
    assert found is not None
    others = np.arange(9) != 4
    np.testing.assert_allclose(found[others], shared[others], rtol=1e-12)
    np.testing.assert_allclose(found[4], 1.0 - shared[4], atol=2e-6)  # predictors are in single precision


def test_more_draws_where_the_first_do_not_do(engines, monkeypatch: pytest.MonkeyPatch):
    engine = engine_of("laplace", 1, engines)
    rows = bernoulli_rows(engine.prior, 20, n_sets=4, seed=2)
    monkeypatch.setattr(laplace_module, "_LADDER", (64, 2048))  # 64 draws cannot have an effective size of 200
    batch = engine.fit(rows)
    n_draws = batch.diagnostics["effective_size"] / batch.diagnostics["effective_share"]
    np.testing.assert_allclose(n_draws, 2048)
    assert batch.vouched.all()
    monkeypatch.setattr(laplace_module, "_LADDER", (64,))
    assert not engine.fit(rows).vouched.any()


def test_draws_have_the_moments(engines):
    engine = engine_of("mixture", 1, engines)
    rows = bernoulli_rows(engine.prior, 5, n_sets=6, seed=6)
    batch = engine.fit(rows, covariance=True)
    draws = engine.draw(rows, 500, rng=np.random.default_rng(0))
    assert draws.shape == (6, 500, 2, 1)
    assert batch.covariance is not None
    sd = np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2))[:, :, None]
    error = sd * np.sqrt(1.0 / 500 + 1.0 / 200)
    assert (np.abs(draws.mean(axis=1) - batch.mean) < LIMIT * error).all()


def test_refusals():
    with pytest.raises(BeliefError, match=r"laplace engine needs a density.*nuts"):
        LaplaceEngine(load_prior("horseshoe", n_arms=2, n_features=1))
    engine = LaplaceEngine(Prior.gaussian(np.zeros((2, 1)), 1.0))
    with pytest.raises(DataError, match="Bernoulli rewards are given as Rows"):
        engine.fit(twins.simulate_statistics(engine.prior, 3, 1.0, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student_t", "skewed", "laplace"])
def test_agrees_with_nuts(name: str):
    prior = load_prior(name, n_arms=2, n_features=3)
    rows = bernoulli_rows(prior, 60, n_sets=4, seed=11)
    users = np.random.default_rng(0).standard_normal((5, 3))
    found = make_engine(prior, BernoulliLogit()).fit(rows, covariance=True, users=users)
    long = NutsEngine(prior, BernoulliLogit(), seed=1, settings=NutsSettings(draws=4000, tune=1000, target_accept=0.95))
    reference = long.fit(rows, users=users)
    assert found.covariance is not None
    assert found.reward is not None
    assert reference.reward is not None
    assert reference.vouched.all()
    sd = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)).reshape(4, 2, 3)
    size = found.diagnostics["effective_size"]
    sent = np.isnan(size)  # answered by shorter chains
    assert sent.sum() == found.n_sent < len(sent)
    size = np.where(sent, found.diagnostics.get("ess_bulk", size), size)
    error = np.sqrt(1.0 / size + 1.0 / reference.diagnostics["ess_bulk"])[:, None, None]
    assert (np.abs(found.mean - reference.mean) < LIMIT * sd * error).all()
    assert (np.abs(found.reward - reference.reward) < LIMIT * 0.5 * error).all()
    assert not (np.abs(found.mean + 0.4 * sd - reference.mean) < LIMIT * sd * error).all()
