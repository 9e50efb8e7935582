"""Users who stand for all: weights exactly, whatever the order of a table; one spread for every run."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.mechanism.engines import make_engines
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.panel import make_panel, spread_users
from rcb_bayes.mechanism.protocol import OneRate
from rcb_bayes.mechanism.worlds import Worlds
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import PosteriorOracle

ROWS = np.array([[1.0, 0.2], [0.3, -0.5], [1.0, 0.2], [0.0, 0.9], [-0.7, 0.1]])
SHARES = np.array([0.1, 0.4, 0.2, 0.05, 0.25])


def market(covariates: rcb.Empirical | rcb.Sphere, *, sigma: float = 0.3) -> Market:
    prior = Prior.gaussian([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], 0.3)
    return Market(prior=prior, covariates=covariates, noise=rcb.GaussianNoise(sigma))


def test_a_panel_does_not_depend_on_the_order_of_the_table():
    one = make_panel(market(rcb.Empirical(ROWS, weights=SHARES)), n_users=8, rng=np.random.default_rng(1))
    turned = make_panel(
        market(rcb.Empirical(ROWS[::-1], weights=SHARES[::-1])), n_users=8, rng=np.random.default_rng(2)
    )
    assert np.array_equal(one.users, turned.users)
    assert np.array_equal(one.weights, turned.weights)
    assert one.n_users == 4  # a row that comes twice is one user
    place = int(np.flatnonzero((one.users == [1.0, 0.2]).all(axis=1))[0])
    assert one.weights[place] == pytest.approx(0.3)


def test_a_row_of_weight_zero_is_no_user():
    panel = make_panel(market(rcb.Empirical(ROWS, weights=[1, 0, 1, 1, 1])), n_users=8, rng=np.random.default_rng(1))
    assert not (panel.users == ROWS[1]).all(axis=1).any()


def test_some_users_of_a_long_table_come_with_their_weights():
    rng = np.random.default_rng(0)
    rows = np.sort(rng.normal(size=(5000, 1)), axis=0)
    weights = np.where(rows[:, 0] > 1.5, 20.0, 1.0)
    users = rcb.Empirical(rows, weights=weights)
    own = Market(prior=Prior.gaussian([[0.1], [0.0]], 1.0), covariates=users, noise=rcb.GaussianNoise(0.3))
    panel = make_panel(own, n_users=100, rng=rng)
    some, shares = panel.some(4000, rng=rng)
    truth, spread = panel.weights @ panel.users[:, 0], panel.users[some, 0].std()
    assert abs(shares @ panel.users[some, 0] - truth) < 4 * spread / np.sqrt(4000)
    assert abs(panel.users[:4000, 0].mean() - truth) > 4 * spread / np.sqrt(4000)  # the first rows are others


@pytest.mark.parametrize("users", [rcb.Empirical(ROWS, weights=SHARES), rcb.Sphere(2)], ids=["table", "sphere"])
@pytest.mark.parametrize("spread", ["posterior", "paper"])
def test_live_and_side_by_side_have_one_spread(users: rcb.Empirical | rcb.Sphere, spread: str):
    """The same data give the same gamma to the last digits, in the first epoch and the next."""
    own = market(users)
    plan = rcb.fixed_plan(own, n_per_arm=4, exploration_rate=0.5)
    options = Exploiting(spread=spread)  # pyright: ignore[reportArgumentType]
    rng = np.random.default_rng(3)
    x, arm = users.sample(12, seed=4), np.repeat(np.arange(3), 4)
    history = History(3, 2)
    history.add(x, arm, rng.normal(size=12))
    statistics = history.sums()
    worlds = Worlds(beta=np.zeros((1, 3, 2)), sigma=None)
    panel = make_panel(own, n_users=64, rng=rng)
    side = EpochWorlds(
        make_engines(own, seed=0),
        panel,
        worlds,
        statistics,
        mechanism=OneRate(n_per_arm=4, n_arms=3),
        options=options,
        began=np.array([40.0]),
        rng=np.random.default_rng(1),
    )
    live = Exploitation(own, plan, PosteriorOracle(own.prior, own.noise), history, begins=40, options=options)
    assert live.gamma == pytest.approx(side.gamma[0], rel=1e-10)
    side.run()
    fresh = side._all
    side.begin()
    live.now = History.from_state(
        {
            "xtx": fresh.xtx[0] - statistics.xtx[0],
            "xty": fresh.xty[0] - statistics.xty[0],
            "yty": fresh.yty[0] - statistics.yty[0],
            "n": fresh.n[0] - statistics.n[0],
            "x": np.zeros((0, 2)),
            "arm": np.zeros(0),
            "reward": np.zeros(0),
        }
    )
    live.next_epoch()
    assert live.gamma == pytest.approx(side.gamma[0], rel=1e-8)


def test_a_spread_of_a_table_weighs_its_rows():
    """A rare type counts with its weight, exactly: no sample of users decides how much."""
    rows, weights = spread_users(rcb.Empirical(np.eye(2), weights=[0.99, 0.01]))
    assert sorted(zip(weights.tolist(), rows.tolist(), strict=True)) == [(0.01, [0.0, 1.0]), (0.99, [1.0, 0.0])]


@pytest.mark.parametrize("run", [rcb.simulate, rcb.audit])
def test_the_paper_s_spread_is_refused_by_all_alike_where_a_direction_is_never_visited(run):
    own = market(rcb.Empirical([[1.0, 0.0], [2.0, 0.0]]))
    plan = rcb.fixed_plan(own, n_per_arm=3, exploration_rate=0.5)
    with pytest.raises(rcb.RcbError, match="phi0 > 0"):
        run(own, plan, horizon=50, n_worlds=60, options=Exploiting(spread="paper"))


def test_the_paper_s_spread_does_not_know_a_world_s_own_sigma():
    """Of an unknown sigma the platform knows its belief only: the spread is the same in every world."""
    from rcb_bayes.mechanism.exploiting import paper_error

    prior = rcb.load_prior("unknown_noise", n_arms=2, n_features=2)
    own = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(None))
    _, sigma = prior.draw_arrays(20_000, rng=np.random.default_rng(5))
    assert sigma is not None
    squares = sigma**2
    expected = (squares.mean() * 2 + 1) / (own.covariates.phi0 * 10)
    error = 2 * squares.std() * (1 / np.sqrt(20_000) + 1 / np.sqrt(4096)) / (own.covariates.phi0 * 10)
    assert abs(paper_error(own, 10) - expected) < 4 * error
