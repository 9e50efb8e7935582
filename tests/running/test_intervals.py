"""Bootstrap and conformal intervals: their coverage of what they say they cover, their spreads, what they refuse."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import rcb_bayes as rcb
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.running.history import History
from rcb_bayes.running.intervals import Bootstrapped, Conformal, SurePredictor
from rcb_bayes.running.oracle import LinearPredictor, Predictor, RidgeOracle

SIGMA, BETA = 0.5, np.array([[0.6, -0.2], [0.1, 0.5]])
NOISE = rcb.GaussianNoise(SIGMA)
SURE = 1e-4  # of a fresh seed that fails


def data(rng: np.random.Generator, n: int) -> History:
    x, arm = rng.normal(size=(n, 2)), np.arange(n) % 2
    made = History(2, 2, keep_rows=True)
    made.add(x, arm, (x * BETA[arm]).sum(axis=1) + SIGMA * rng.normal(size=n))
    return made


def covered(oracle: Any, n_sets: int, *, n: int, level: float, noisy: bool, seed: int, arm: int = 0) -> int:
    """In how many data sets of their own the interval of one fresh user holds her mean reward, or her reward."""
    hits = 0
    for k in range(n_sets):
        rng = np.random.default_rng([seed, k])
        found = oracle.fit(data(rng, n))
        x = rng.normal(size=(2, 1))
        target = BETA[arm] @ x[:, 0] + (SIGMA * rng.normal() if noisy else 0.0)
        lower, upper = found.intervals(x, level=level)
        hits += bool(lower[arm, 0] <= target <= upper[arm, 0])
    return hits


def fits(hits: int, n: int, level: float) -> bool:
    """Whether the coverage is the nominal one, by the binomial law."""
    return stats.binomtest(hits, n, 1.0 - level).pvalue > SURE


# --- coverage --------------------------------------------------------------------------------------------------------


def test_bootstrap_intervals_cover_mean_rewards_at_their_level():
    oracle = Bootstrapped(RidgeOracle(penalty=1e-6))
    assert fits(covered(oracle, 300, n=200, level=0.1, noisy=False, seed=1), 300, 0.1)
    assert not fits(covered(oracle, 300, n=200, level=0.1, noisy=True, seed=1), 300, 0.1)  # rewards vary more


def test_margins_of_ridge_regression_are_covered_in_short_logs(monkeypatch: pytest.MonkeyPatch):
    """20 samples of each of two arms, users on the circle, the default penalty: it shrinks, and intervals reckon with
    it. Without what is shrunk the planted ones are those of before, too short."""

    def share(n_sets: int) -> int:
        hits = 0
        for k in range(n_sets):
            rng = np.random.default_rng([13, k])
            x, arm = rng.normal(size=(40, 2)), np.arange(40) % 2
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            beta, user = 0.5 * rng.normal(size=(2, 2)), np.array([[0.6], [0.8]])
            made = History(2, 2, keep_rows=True)
            made.add(x, arm, (x * beta[arm]).sum(axis=1) + 0.3 * rng.normal(size=40))
            lower, upper = Bootstrapped(RidgeOracle(), seed=k).fit(made).margins(user, level=0.05)
            hits += bool(lower[0, 1, 0] <= (beta[0] - beta[1]) @ user[:, 0] <= upper[0, 1, 0])
        return hits

    assert stats.binomtest(share(300), 300, 0.95, alternative="less").pvalue > SURE
    monkeypatch.setattr("rcb_bayes.running.intervals.BootstrapPredictor._shrunk", lambda self, x: 0.0 * self.scores(x))
    assert stats.binomtest(share(300), 300, 0.95, alternative="less").pvalue < 1e-2


def test_conformal_intervals_cover_rewards_at_their_level():
    oracle = Conformal(RidgeOracle(penalty=1e-6), noise=NOISE)
    assert fits(covered(oracle, 400, n=120, level=0.1, noisy=True, seed=2), 400, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_coverage_over_many_data_sets(level: float):
    """Of mean rewards by the bootstrap, of rewards by conformal intervals: 2,000 data sets each."""
    for oracle, noisy in (
        (Bootstrapped(RidgeOracle(penalty=1e-6)), False),
        (Conformal(RidgeOracle(penalty=1e-6), noise=NOISE), True),
    ):
        hits = covered(oracle, 2000, n=400, level=level, noisy=noisy, seed=3)
        low, high = stats.binomtest(hits, 2000).proportion_ci(0.999)
        print(f"{type(oracle).__name__} {1 - level:.2f}: {hits / 2000:.4f} ({low:.4f} to {high:.4f})")
        assert low <= 1 - level <= high


class Wrong:
    """An oracle that leaves out the feature that matters most to each arm, and is sure of it."""

    needs_rows = False

    def fit(self, history: History) -> LinearPredictor:
        found = RidgeOracle(penalty=1e-6).fit(history)
        assert isinstance(found, LinearPredictor)
        return LinearPredictor(found.means * np.array([[0.0, 1.0], [1.0, 0.0]]))


def test_a_wrong_oracle_is_caught_by_conformal_intervals_and_not_by_the_bootstrap():
    """Its bias is no matter of resampling, nor of a second fit; residuals show it, and rewards are covered all the
    same."""
    hits = covered(Conformal(Wrong(), noise=NOISE), 300, n=120, level=0.1, noisy=True, seed=4)
    assert fits(hits, 300, 0.1)
    assert covered(Bootstrapped(Wrong()), 100, n=120, level=0.1, noisy=False, seed=4) < 50
    history, users = data(np.random.default_rng(1), 400), np.random.default_rng(2).normal(size=(2, 500))
    true = ((Wrong().fit(history).scores(users) - BETA @ users) ** 2).mean(axis=1)
    by_fold = Conformal(Wrong(), noise=NOISE).fit(history).variances(users)
    resampled = Bootstrapped(Wrong()).fit(history).variances(users)
    assert by_fold is not None
    assert resampled is not None
    assert (by_fold[:, 0] > 0.7 * true).all()
    assert (resampled.mean(axis=1) < 0.1 * true).all()


def test_residuals_of_the_fit_itself_would_not_cover(monkeypatch: pytest.MonkeyPatch):
    """The planted twin: an oracle that has seen what it is judged by is too sure."""
    from sklearn.neighbors import KNeighborsRegressor

    oracle = Conformal(rcb.SklearnOracle(estimator=KNeighborsRegressor(2)), noise=NOISE, n_folds=4)
    assert fits(covered(oracle, 100, n=60, level=0.2, noisy=True, seed=5), 100, 0.2)
    whole = History.rows

    def unheld(like: History, x: np.ndarray, arm: np.ndarray, reward: np.ndarray) -> History:
        made = History(len(like.n), x.shape[1], keep_rows=True)
        made.add(*whole(like))
        return made

    monkeypatch.setattr("rcb_bayes.running.intervals._of_rows", unheld)
    assert not fits(covered(oracle, 100, n=60, level=0.2, noisy=True, seed=5), 100, 0.2)


def test_conformal_bounds_are_their_definition():
    """CV+ by a plain double loop."""
    history = data(np.random.default_rng(3), 40)
    found = Conformal(RidgeOracle(penalty=0.1), noise=NOISE, n_folds=5, seed=7).fit(history)
    x, arm, reward = history.rows()
    users = np.random.default_rng(4).normal(size=(2, 3))
    lower, upper = found.intervals(users, level=0.25)
    for a in (0, 1):
        rows = np.flatnonzero(arm == a)
        fold = found.residuals[a][0]
        for u in range(3):
            ups, downs = [], []
            for place, row in enumerate(rows):
                others = [r for r, f in zip(rows, fold, strict=True) if f != fold[place]]
                own_x, own_y = x[others], reward[others]
                coefficients = np.linalg.solve(own_x.T @ own_x + 0.1 * np.eye(2), own_x.T @ own_y)
                residual = abs(reward[row] - x[row] @ coefficients)
                ups.append(users[:, u] @ coefficients + residual)
                downs.append(users[:, u] @ coefficients - residual)
            n = len(rows)
            np.testing.assert_allclose(upper[a, u], sorted(ups)[int(np.ceil(0.75 * (n + 1))) - 1], atol=1e-10)
            np.testing.assert_allclose(lower[a, u], sorted(downs)[int(np.floor(0.25 * (n + 1))) - 1], atol=1e-10)


def test_bootstrap_variances_are_those_of_the_regression():
    """Beside sigma^2 x'(X'X)^(-1)x, in the bootstrap's own error: variances of 200 replicates have one of 10 %."""
    history = data(np.random.default_rng(5), 2000)
    users = np.random.default_rng(6).normal(size=(2, 50))
    found = Bootstrapped(RidgeOracle(penalty=1e-6), n_replicates=200).fit(history).variances(users)
    assert found is not None
    xtx = history.sums().xtx[0]
    for a in (0, 1):
        exact = SIGMA**2 * np.einsum("du,de,eu->u", users, np.linalg.inv(xtx[a]), users)
        ratio = (found[a] / exact).mean()
        assert abs(ratio - 1.0) < 4 * np.sqrt(2 / 199)


def test_margins_are_those_of_differences():
    history, users = data(np.random.default_rng(8), 100), np.random.default_rng(9).normal(size=(2, 4))
    for oracle in (Bootstrapped(RidgeOracle()), Conformal(RidgeOracle())):
        found = oracle.fit(history)
        assert isinstance(found, SurePredictor)
        lower, upper = found.margins(users, level=0.1)
        np.testing.assert_allclose(lower, -upper.swapaxes(0, 1))
        assert (np.diagonal(lower) == 0).all()
        assert (lower[0, 1] < upper[0, 1]).all()


@pytest.mark.parametrize("kind", [Bootstrapped, Conformal])
def test_the_same_data_give_the_same_intervals(kind: Any):
    history, users = data(np.random.default_rng(8), 50), np.ones((2, 3))
    one, two = (kind(RidgeOracle(), seed=3).fit(history).intervals(users, level=0.1) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (kind(RidgeOracle(), seed=4).fit(history).intervals(users, level=0.1)[0] != one[0]).any()


@pytest.mark.parametrize("kind", [Bootstrapped, Conformal])
def test_an_arm_without_samples_is_not_known(kind: Any):
    history = History(2, 2, keep_rows=True)
    rng = np.random.default_rng(1)
    history.add(rng.normal(size=(30, 2)), np.zeros(30, dtype=np.int64), rng.normal(size=30))
    found = kind(RidgeOracle()).fit(history)
    lower, upper = found.intervals(np.ones((2, 1)), level=0.1)
    assert np.isfinite([lower[0], upper[0]]).all()
    assert (lower[1, 0], upper[1, 0]) == (-np.inf, np.inf)
    assert np.isinf(found.variances(np.ones((2, 1)))[1, 0])
    empty = kind(RidgeOracle()).fit(History(2, 2, keep_rows=True))
    assert np.isinf(empty.intervals(np.ones((2, 1)), level=0.1)[1]).all()


# --- in a run --------------------------------------------------------------------------------------------------------


def here() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


def learners() -> dict[str, Any]:
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    from sklearn.neural_network import MLPRegressor

    return {
        "boosting": GradientBoostingRegressor(n_estimators=8, max_depth=2, random_state=0),
        "net": MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=40, tol=1e-2, random_state=0),
        "process": GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.1)).set_params(optimizer=None),
    }


@pytest.mark.parametrize("joint", [False, "shared"])
@pytest.mark.parametrize("name", ["boosting", "net", "process"])
@pytest.mark.filterwarnings("ignore:.*lbfgs.*")
def test_any_learner_runs_live_with_intervals(name: str, joint: Any):
    market = here()
    plan = rcb.fixed_plan(market, n_per_arm=8, exploration_rate=0.5, epsilon=0.1)
    inner = rcb.SklearnOracle(estimator=learners()[name], joint=joint)
    agent = rcb.Recommender(market, plan, oracle=rcb.Heeding(Conformal(inner, noise=market.noise, n_folds=3)), seed=1)
    for x in market.covariates.sample(60, seed=2):
        agent.observe(float(0.4 * x.sum()), ticket=agent.recommend(x).ticket)
    assert agent.stage == "exploit"
    found = rcb.oracle_margins(agent, n_users=5)
    told = found["chance"] > 0
    assert (told.sum("arm") >= 1).all()
    shown = found["estimate"].notnull()
    assert (found["lower"] <= found["estimate"]).where(shown, True).all()


def test_the_spread_is_that_of_the_intervals():
    """gamma is 4 sqrt(K / E), with E the average of the oracle's own variances over users: the wider, the smaller."""
    from rcb_bayes.mechanism.epoch import PredictionError

    market = here()
    plan = rcb.fixed_plan(market, n_per_arm=20, exploration_rate=0.5)
    gammas = {}
    for kind in (Bootstrapped(RidgeOracle()), Conformal(RidgeOracle(), noise=market.noise), Conformal(RidgeOracle())):
        agent = rcb.Recommender(market, plan, oracle=kind, seed=1)
        rng = np.random.default_rng(3)
        for x in market.covariates.sample(400, seed=2):
            agent.observe(float(0.4 * x.sum() + 0.3 * rng.normal()), ticket=agent.recommend(x).ticket)
            if agent.stage == "exploit":
                break
        exploitation = agent._rcb.exploitation
        assert exploitation is not None
        error = PredictionError(market, plan.agenda)
        variances = kind.fit(exploitation.fed).variances(np.ascontiguousarray(error.users.T))
        assert variances is not None
        expected = 4.0 * np.sqrt(2 / error(None, variances[:, :, None]))
        np.testing.assert_allclose(exploitation.gamma, expected[0], rtol=1e-12)
        gammas[len(gammas)] = exploitation.gamma
    assert gammas[0] > gammas[1] > gammas[2]


def test_margins_of_an_oracle_say_what_they_are_worth():
    market = here()
    plan = rcb.fixed_plan(market, n_per_arm=10, exploration_rate=0.5, epsilon=0.1, notion="proof")
    agent = rcb.Recommender(market, plan, oracle=Bootstrapped(RidgeOracle(penalty=0.01)), seed=1)
    with pytest.raises(RcbError, match="cold start"):
        rcb.oracle_margins(agent)
    for x in market.covariates.sample(80, seed=2):
        agent.observe(float(0.4 * x.sum()), ticket=agent.recommend(x).ticket)
    users = market.covariates.sample(6, seed=3)
    by_user, by_proof = (rcb.oracle_margins(agent, users, notion=notion) for notion in ("user", "proof"))
    chance = by_user["chance"]
    np.testing.assert_allclose(by_proof["lower"], (chance * by_user["lower"]).transpose(*by_proof["lower"].dims))
    assert "nothing about what users believe" in by_user.attrs["does_not_certify"]
    assert "95%" in by_user.attrs["certifies"]
    assert set(np.unique(by_user["holds"])) <= {-1, 0, 1}
    assert by_user.attrs["infinite"] == ""
    with pytest.raises(RcbError, match="level"):
        rcb.oracle_margins(agent, users, level=0.0)
    few = rcb.Recommender(market, plan, oracle=Conformal(RidgeOracle()), seed=1)
    for x in market.covariates.sample(40, seed=2):
        few.observe(float(0.4 * x.sum()), ticket=few.recommend(x).ticket)
    assert "have no end: at this level each arm needs 39 samples" in rcb.oracle_margins(few, users).attrs["infinite"]
    assert rcb.oracle_margins(few, users, level=0.5).attrs["infinite"] == ""
    plain = rcb.Recommender(market, plan, oracle=RidgeOracle(), seed=1)
    for x in market.covariates.sample(80, seed=2):
        plain.observe(float(0.4 * x.sum()), ticket=plain.recommend(x).ticket)
    with pytest.raises(RcbError, match="Bootstrapped"):
        rcb.oracle_margins(plain)


def test_what_follows_for_users_from_intervals_that_cover():
    """Recommending only where the lower bound clears -eps keeps ``proof`` at eps + level R, under a belief all of whose
    worlds the intervals cover; it does not keep ``user`` there: given the recommendation misses weigh more."""
    rng = np.random.default_rng(11)
    n, level, epsilon, reach = 200_000, 0.2, 0.0, 1.0
    lead = -reach * (rng.random(n) < 0.97)  # the new arm is worse by R, or as good
    found = lead + rng.normal(size=n)
    told = found - stats.norm.isf(level / 2) >= -epsilon
    terms = told * lead
    assert terms.mean() >= -epsilon - level * reach
    assert terms.mean() / told.mean() < -epsilon - level * reach


# --- oracles that fail -----------------------------------------------------------------------------------------------


class Breaking:
    """An oracle that predicts infinities from its second fit on."""

    needs_rows = False

    def __init__(self, value: float, *, from_fit: int = 1) -> None:
        self.value, self.fits, self.from_fit = value, 0, from_fit

    def fit(self, history: History) -> Predictor:
        self.fits += 1
        if self.fits <= self.from_fit:
            return RidgeOracle().fit(history)
        return LinearPredictor(np.full((2, 2), self.value))


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("from_fit", [0, 1])
def test_infinities_are_told_and_change_nothing(value: float, from_fit: int, tmp_path: Any):
    market = here()
    plan = rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.5)
    agent = rcb.Recommender(market, plan, oracle=Breaking(value, from_fit=from_fit), seed=1)
    users = market.covariates.sample(400, seed=2)

    def go_on() -> None:
        for x in users:
            agent.observe(0.4, ticket=agent.recommend(x).ticket)

    with pytest.raises(DataError, match=r"predicts (inf|nan) for arm 'old'.*Nothing has changed") as error:
        go_on()
    assert "\n" not in str(error.value)
    before = agent.rounds, agent.n_samples
    agent.save(tmp_path / "one.json")
    with pytest.raises(DataError, match="predicts"):
        agent.recommend(users[0])
    assert (agent.rounds, agent.n_samples) == before
    agent.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    mended = rcb.Recommender.load(tmp_path / "one.json", market, oracle=RidgeOracle())
    assert mended.recommend(users[0]).arm in market.arms
    with pytest.raises(DataError, match="predicts"):
        rcb.simulate(market, plan, oracle=Breaking(value, from_fit=from_fit), horizon=400, n_worlds=1)


class Pole:
    """Finite but for one user."""

    needs_rows = False

    def fit(self, history: History) -> "Pole":
        return self

    def scores(self, features: np.ndarray) -> np.ndarray:
        return np.stack([np.where(features[0] > 0.999999, np.inf, 0.1), features[1]])

    def variances(self, features: np.ndarray) -> None:
        return None


def test_an_infinity_for_one_user_is_told_when_she_comes():
    market = here()
    agent = rcb.Recommender(market, rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.5), oracle=Pole(), seed=1)
    for x in market.covariates.sample(100, seed=2):
        agent.observe(0.4, ticket=agent.recommend(x).ticket)
    rounds = agent.rounds
    with pytest.raises(DataError, match="inf for arm 'old'"):
        agent.recommend([1.0, 0.5])
    with pytest.raises(DataError, match="inf for arm 'old'"):
        agent.recommend_many([[0.5, 0.5], [1.0, 0.5]])
    assert (agent.rounds, agent.n_pending) == (rounds, 0)
    assert agent.recommend([0.5, 0.5]).ticket == rounds


class Failing:
    needs_rows = False

    def __init__(self, scores: Any, variances: Any = None) -> None:
        self._scores, self._variances = scores, variances

    def fit(self, history: History) -> "Failing":
        return self

    def scores(self, features: np.ndarray) -> np.ndarray:
        return self._scores(features)

    def variances(self, features: np.ndarray) -> Any:
        return None if self._variances is None else self._variances(features)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (Failing(lambda f: np.zeros((3, f.shape[1]))), "a number for each arm"),
        (Failing(lambda f: np.zeros((2, f.shape[1])), lambda f: np.full((2, f.shape[1]), -1.0)), "variances"),
        (Failing(lambda f: np.zeros((2, f.shape[1])), lambda f: np.full((2, f.shape[1]), np.nan)), "variances"),
    ],
)
def test_other_faults_of_an_oracle(oracle: Any, message: str):
    market = here()
    with pytest.raises(DataError, match=message):
        rcb.simulate(market, rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.5), oracle=oracle, horizon=100)


def test_an_estimator_that_cannot_be_fitted_says_so():
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    history = data(np.random.default_rng(1), 20)
    with pytest.raises(RcbError, match=r"LogisticRegression could not be fitted to 10 samples.*Nothing has changed"):
        rcb.SklearnOracle(estimator=LogisticRegression()).fit(history)  # rewards are no classes
    clicks = History(1, 2, keep_rows=True)
    clicks.add(
        np.random.default_rng(1).normal(size=(20, 2)), np.zeros(20, dtype=np.int64), (np.arange(20) % 2).astype(float)
    )
    with pytest.raises(RcbError, match="predict_proba"):
        rcb.SklearnOracle(estimator=LinearSVC()).fit(clicks)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bootstrapped(RidgeOracle(), n_replicates=1), "n_replicates"),
        (lambda: Conformal(RidgeOracle(), n_folds=1), "n_folds"),
        (lambda: Bootstrapped(rcb.Heeding(RidgeOracle())), "Heeding goes around"),
        (lambda: Conformal(Bootstrapped(RidgeOracle())), "oracle as such"),
        (lambda: rcb.SklearnOracle(estimator="ridge"), "scikit-learn"),
        (lambda: rcb.SklearnOracle(estimator=_ridge(), joint="all"), "joint"),  # pyright: ignore[reportArgumentType]
        (lambda: rcb.SklearnOracle(estimator=_ridge(), default=np.inf), "default"),
    ],
)
def test_what_is_refused(make: Any, message: str):
    with pytest.raises(RcbError, match=message):
        make()


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()
