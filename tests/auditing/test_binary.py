"""Audits of 0/1 rewards with all worlds side by side, against the mechanism run world by world with true rewards."""

from dataclasses import replace

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.policy_views import policy_views
from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import USER
from rcb_bayes.mechanism.tally_worlds import TallyWorlds
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.schema import FloatArray

ROWS = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [1.0, 2.0], [1.0, 0.5]])
HORIZON, N_WORLDS = 80, 300
OPTIONS = Exploiting(guard=False)


@pytest.fixture(scope="module")
def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.4, 0.0], [0.0, 0.1]], 0.8, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Empirical(ROWS), noise=rcb.BernoulliLogit())


@pytest.fixture(scope="module")
def plan(market: rcb.Market) -> rcb.Plan:
    return rcb.calibrate(market, epsilon=0.05, n_per_arm=6, n_worlds=400, audit_worlds=400, guard=False, seed=1)


def asked(n_worlds: int) -> Asked:
    return Asked(notion=USER, epsilon=0.05, n_worlds=n_worlds, n_users=100, level=0.05, seed=3)


def forms(view: View) -> tuple[FloatArray, FloatArray]:
    """E[p_i (m_i - m_j + epsilon)] of every user, arm and rival, with its error, (K, K, U) each."""
    terms = view.chances[:, None] * (view.rewards[:, None] - view.rewards[None] + 0.05)
    return terms.mean(axis=-1), terms.std(axis=-1, ddof=1) / np.sqrt(terms.shape[-1])


def plain(market: rcb.Market, plan: rcb.Plan) -> dict[str, View]:
    """Round by round, world by world, with rewards that are drawn one by one."""
    oracle = PosteriorOracle(market.prior, market.noise, read="engine")
    looked = policy_views(
        market, lambda own, seed: Rcb(own, plan, oracle=oracle, options=OPTIONS), asked(N_WORLDS), horizon=HORIZON
    )
    return {view.name: view for view in looked.views}


def side_by_side(market: rcb.Market, plan: rcb.Plan) -> dict[str, View]:
    looked = plan_views(market, plan, replace(asked(1000), users=ROWS), horizon=HORIZON, options=OPTIONS)
    return {view.name: view for view in looked.views}


def largest_z(first: dict[str, View], second: dict[str, View]) -> tuple[float, set[str]]:
    """The largest difference of a form in errors, over all stages that both have seen in most worlds; their names."""
    largest, names = 0.0, set()
    for name in first.keys() & second.keys():
        if min(first[name].share, second[name].share) < 0.9:
            continue
        (a, da), (b, db) = forms(first[name]), forms(second[name])
        largest = max(largest, float((np.abs(a - b) / np.sqrt(da**2 + db**2 + 1e-6)).max()))
        names.add(name)
    return largest, names


@pytest.mark.slow
def test_margins_are_those_of_the_mechanism(market: rcb.Market, plan: rcb.Plan, monkeypatch: pytest.MonkeyPatch):
    truth = plain(market, plan)
    order = {row.tobytes(): k for k, row in enumerate(ROWS)}
    crowd = plan_views(market, plan, asked(400), horizon=HORIZON, options=OPTIONS).crowd.judged.users
    places = [order[row.tobytes()] for row in crowd]
    assert sorted(places) == list(range(len(ROWS)))  # a short table: everybody is judged

    def found() -> tuple[float, set[str]]:
        ours = {name: view.of_users(np.array(places)) for name, view in side_by_side(market, plan).items()}
        return largest_z(truth, ours)

    z, names = found()
    assert len(names) >= 3  # the first phase, the stage of one arm, epochs
    assert z < 4.5
    # Planted: rewards of exploitation that come about the other way round.
    true_chances = TallyWorlds._chances
    monkeypatch.setattr(TallyWorlds, "_chances", lambda self, users, worlds: 1.0 - true_chances(self, users, worlds))
    assert found()[0] > 4.5


def test_an_audit_passes_and_knows_less(market: rcb.Market):
    plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=6, n_worlds=400, audit_worlds=400, seed=1)
    assert rcb.audit(market, plan, horizon=200, n_worlds=400, seed=2).verdict == "pass"
    assert rcb.audit(market, plan, horizon=200, n_worlds=400, knows="level", seed=2).verdict == "pass"


def test_counts_do_not_lose_anybody(market: rcb.Market, plan: rcb.Plan):
    from rcb_bayes.mechanism.epoch_worlds import begin_exploitation
    from rcb_bayes.mechanism.simulator import Simulator
    from rcb_bayes.mechanism.streams import Stream

    simulator = Simulator(market, seed=5)
    walked = simulator.walk_under(plan)
    epochs, _ = begin_exploitation(
        simulator,
        walked,
        np.flatnonzero(walked.ended),
        mechanism=plan,
        options=OPTIONS,
        n_worlds=60,
        purpose=Stream.AUDITED_EPOCHS,
    )
    assert isinstance(epochs, TallyWorlds)
    np.testing.assert_array_equal(epochs._all.n, 6.0)
    lengths = epochs.state.lengths
    epochs.run()
    np.testing.assert_array_equal(epochs._all.n.sum(axis=1), 12.0 + lengths)
    assert (epochs._all.successes <= epochs._all.trials).all()
