"""Heeding: any oracle, however wrong, recommends nothing that users hold to be worse by more than they accept."""

import warnings
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import GuardWarning, RcbError
from rcb_bayes.running.heeding import Heeding, kept_by_construction, users_expect
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import LinearPredictor, PosteriorOracle, RidgeOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import SimulatedWorld

ARMS = ["old", "new"]


def market(noise: Any = None) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=ARMS)
    covariates = rcb.Empirical(rcb.Uniform([0, 0], [1, 1]).sample(40, seed=1))
    return rcb.Market(prior=prior, covariates=covariates, noise=noise or rcb.GaussianNoise(0.3))


class Wrong:
    """An oracle that has it the wrong way round: the worse, the better."""

    needs_rows = False

    def fit(self, history: History) -> LinearPredictor:
        found = RidgeOracle(penalty=0.1).fit(history)
        assert isinstance(found, LinearPredictor)
        d = found.means.shape[1]
        return LinearPredictor(-4.0 * found.means, np.stack([1e-4 * np.eye(d)] * len(found.means)))


def tree() -> rcb.SklearnOracle:
    from sklearn.tree import DecisionTreeRegressor

    return rcb.SklearnOracle(estimator=DecisionTreeRegressor(max_depth=2, random_state=0), joint="shared")


@pytest.fixture(scope="module")
def here() -> rcb.Market:
    return market()


@pytest.fixture(scope="module")
def plan(here: rcb.Market) -> rcb.Plan:
    return rcb.calibrate(here, epsilon=0.1, n_per_arm=10, n_worlds=1000, seed=1)


@pytest.fixture(scope="module")
def roomy(here: rcb.Market) -> rcb.Plan:
    """A cold start for half the epsilon of the audit; at epsilon itself no audit world by world passes."""
    return rcb.calibrate(here, epsilon=0.05, n_per_arm=10, n_worlds=1000, seed=1)


ASKED: dict[str, Any] = {"epsilon": 0.1, "horizon": 120, "n_worlds": 300, "n_users": 10, "seed": 2}


# --- audits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", [Wrong(), tree()], ids=["wrong", "tree"])
def test_any_oracle_passes_under_heeding(here: rcb.Market, roomy: rcb.Plan, oracle: Any):
    found = rcb.audit(here, roomy, oracle=Heeding(oracle, epsilon=0.1), **ASKED)
    assert found.verdict == "pass"
    assert sum(str(name).startswith("epoch") for name in found.margins["stage"].values) >= 3


def test_a_wrong_oracle_does_not_pass_without_it(here: rcb.Market, roomy: rcb.Plan):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        found = rcb.audit(here, roomy, oracle=Wrong(), **ASKED)
    assert found.verdict == "fail"


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_clicks_are_heeded_too(notion: str):
    """0/1 rewards: the users' posterior has an error of its own, which no verdict may turn on."""
    clicks = market(rcb.BernoulliLogit())
    plan = rcb.fixed_plan(clicks, n_per_arm=5, exploration_rate=0.5, epsilon=0.05, notion=notion)
    asked: dict[str, Any] = {"horizon": 80, "n_worlds": 150, "n_users": 5, "seed": 2}
    lowest = {}
    for heeds in (True, False):
        found = rcb.audit(clicks, plan, oracle=Heeding(Wrong()) if heeds else Wrong(), **asked).margins
        epochs = [str(name) for name in found["stage"].values if str(name).startswith("epoch")]
        assert len(epochs) > 1
        own = found.sel(stage=epochs)
        lowest[heeds] = float((own["estimate"] + 4 * own["mcse"]).min())
    assert lowest[True] > -0.05
    if notion == "user":
        assert lowest[False] < -0.05


# --- the cut ---------------------------------------------------------------------------------------------------------


def test_the_cut_is_its_formula():
    expected = np.array([[0.5, 0.1], [0.4, 0.4], [0.2, 0.4]])
    told = np.array([[0.0, 0.5], [1.0, 0.25], [0.0, 0.25]])
    user = Heeding(Wrong(), epsilon=0.03, notion="user").cut(told, expected)
    np.testing.assert_allclose(user, [[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])  # what is cut is shared by tied arms
    proof = Heeding(Wrong(), epsilon=0.03, notion="proof").cut(told, expected)
    np.testing.assert_allclose(proof, [[0.7, 0.1], [0.3, 0.45], [0.0, 0.45]])  # .3 times a gap of .1 is epsilon
    np.testing.assert_allclose(proof.sum(axis=0), 1.0)


def test_users_are_heeded_by_all_samples_that_count(here: rcb.Market, plan: rcb.Plan):
    """At every epoch the users' expectations are the conjugate posterior means of the whole history."""
    agent = rcb.Recommender(here, plan, oracle=Heeding(RidgeOracle()), keep_log=1000, seed=3)
    rng = np.random.default_rng(5)
    for x in here.covariates.sample(150, seed=4):
        agent.observe(float(rng.normal()), ticket=agent.recommend(x).ticket)
    exploitation = agent._rcb.exploitation
    assert exploitation is not None
    assert exploitation.heeded is not None
    log = agent.log[lambda rows: (rows["counted"] == 1) & (rows["ticket"] < exploitation.begins)]
    users = here.covariates.sample(7, seed=6)
    found = exploitation.heeded.scores(np.ascontiguousarray(users.T))
    for k, label in enumerate(ARMS):
        own = log[log["arm"] == label]
        x, y = np.asarray(own[list(here.features)]), np.asarray(own["reward"])
        precision = np.eye(2) / 0.25 + x.T @ x / 0.09
        mean = np.linalg.solve(precision, np.array([[0.5, 0.2], [0.2, 0.2]])[k] / 0.25 + x.T @ y / 0.09)
        np.testing.assert_allclose(found[k], users @ mean, atol=1e-10)


def test_an_oracle_that_agrees_with_users_is_left_alone(here: rcb.Market, plan: rcb.Plan):
    """With a budget without end nothing is cut, and runs are those of the oracle; the plan's guard is left out."""
    oracle = RidgeOracle()
    free = rcb.simulate(here, plan, oracle=Heeding(oracle, epsilon=1e6), horizon=200, n_worlds=3, seed=1)
    plain = rcb.simulate(
        here, plan, oracle=oracle, options=rcb.Exploiting(guard=False), horizon=200, n_worlds=3, seed=1
    )
    np.testing.assert_array_equal(free["recommended"], plain["recommended"])
    cut = rcb.simulate(here, plan, oracle=Heeding(Wrong()), horizon=200, n_worlds=3, seed=1)
    assert (cut["recommended"] != free["recommended"]).any()


def test_live_and_simulated_are_the_same(here: rcb.Market, plan: rcb.Plan):
    oracle = Heeding(Wrong())
    seed = np.random.SeedSequence(1, spawn_key=(0,))
    runs = rcb.simulate(here, plan, oracle=oracle, horizon=120, n_worlds=1, seed=1)
    world = SimulatedWorld(here, seed)
    agent = rcb.Recommender(here, plan, oracle=oracle, seed=seed)
    arms = []
    for t in range(120):
        told = agent.recommend(world.arrivals(t, t + 1).x[0])
        arms.append(here.arms.index(told.arm))
        agent.observe(float(world.rewards(t, np.array(arms[-1:]))[0]), ticket=told.ticket)
    np.testing.assert_array_equal(arms, runs["recommended"].values[0])


def test_a_saved_recommender_goes_on_heeding(here: rcb.Market, plan: rcb.Plan, tmp_path: Any):
    agent = rcb.Recommender(here, plan, oracle=Heeding(tree()), seed=3)
    users = here.covariates.sample(300, seed=4)
    for x in users[:150]:
        agent.observe(float(x.sum()), ticket=agent.recommend(x).ticket)
    agent.save(tmp_path / "agent.json")
    other = rcb.Recommender.load(tmp_path / "agent.json", here, oracle=Heeding(tree()))
    for x in users[150:]:
        one, two = agent.recommend(x), other.recommend(x)
        assert (one.arm, one.probabilities) == (two.arm, two.probabilities)
        agent.observe(0.3, ticket=one.ticket)
        other.observe(0.3, ticket=two.ticket)


@pytest.mark.slow
def test_clicks_are_expected_as_the_engine_has_them():
    clicks = market(rcb.BernoulliLogit())
    rng = np.random.default_rng(2)
    history = History(2, 2, keep_rows=True)
    history.add(rng.random((40, 2)), np.arange(40) % 2, (rng.random(40) < 0.5).astype(float))
    users = np.ascontiguousarray(clicks.covariates.sample(5, seed=1).T)
    sharp = users_expect(clicks, history).scores(users)
    rough = PosteriorOracle(clicks.prior, clicks.noise).fit(history)
    variances = rough.variances(users)
    assert variances is not None
    assert (np.abs(sharp - rough.scores(users)) < 4 * np.sqrt(variances / 256)).all()


def test_no_warning_about_a_guard_that_is_not_needed(here: rcb.Market, plan: rcb.Plan):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rcb.Recommender(here, plan, oracle=Heeding(Wrong()))
    if plan.has_guard:
        with pytest.warns(GuardWarning, match="Heeding"):
            rcb.Recommender(here, plan, oracle=Wrong())


def test_what_is_kept_by_construction():
    assert kept_by_construction("proof") == ("proof",)
    assert set(kept_by_construction("user")) == {"proof", "definition", "user"}


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Heeding(Wrong(), epsilon=-1.0), "epsilon"),
        (lambda: Heeding(Wrong(), epsilon=float("nan")), "epsilon"),
        (lambda: Heeding(Wrong(), notion="users"), "notion"),
        (lambda: Heeding(Heeding(Wrong())), "already"),
    ],
)
def test_what_is_refused(make: Any, message: str):
    with pytest.raises(RcbError, match=message):
        make()


@pytest.mark.parametrize("options", [{"feed": "last"}, {"inflation": "log"}])
def test_users_reckon_with_all_samples_and_their_own_prior(here: rcb.Market, plan: rcb.Plan, options: Any):
    with pytest.raises(RcbError, match="Heeding"):
        Rcb(here, plan, oracle=Heeding(Wrong()), options=rcb.Exploiting(**options))


def test_where_nothing_is_cut_heeding_is_refused(here: rcb.Market):
    with pytest.raises(RcbError, match="not cut"):
        rcb.baselines.Greedy(here, oracle=Heeding(Wrong()))
    with pytest.raises(RcbError, match="epsilon and a notion"):
        rcb.baselines.Falcon(here, oracle=Heeding(Wrong()))
    rcb.baselines.Falcon(here, oracle=Heeding(Wrong(), epsilon=0.1, notion="user"))
