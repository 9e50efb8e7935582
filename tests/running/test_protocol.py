"""What is asked of a policy: all of the package answer it, and one of one's own is run and audited like them."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market
from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.running.policies import Rcb, as_policy
from rcb_bayes.running.protocol import BarePolicy, Policy, PolicyMaker, completed
from rcb_bayes.running.worlds import SimulatedWorld
from tests.baselines.runs import SIGMA, alike, drive, market
from tests.baselines.test_learner import ALIKE, ANYWHERE
from tests.documents.test_docstrings import examples_of, run


def paper(where: Market) -> Rcb:
    return Rcb(where, rcb.fixed_plan(where, n_per_arm=5, exploration_rate=0.5))


def of_functions(where: Market, seed: int) -> Policy:
    return as_policy(lambda x: np.full((len(x), where.n_arms), 1 / where.n_arms))


OURS: dict[str, PolicyMaker] = {
    "RCB": lambda m, seed: paper(m),
    "heeding": lambda m, seed: Rcb(m, paper(m).plan, oracle=rcb.Heeding(rcb.RidgeOracle(), epsilon=0.1, notion="user")),
    "functions": of_functions,
}


def cases() -> list[Any]:
    anywhere = [pytest.param(make, market(), id=name) for name, make in (OURS | ANYWHERE).items()]
    return anywhere + [pytest.param(make, alike(), id=name) for name, make in ALIKE.items()]


# --- the policies of the package -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "where"), cases())
@pytest.mark.parametrize("rounds", [0, 120])
def test_every_policy_of_the_package_answers_all_that_is_asked(make: PolicyMaker, where: Market, rounds: int):
    policy = make(where, 1)
    assert isinstance(policy, Policy)
    assert completed(policy) is policy
    drive(policy, rounds, where=where)
    users, k = where.covariates.sample(9, seed=2), where.n_arms
    assert policy.known_stage is None or policy.known_stage
    assert policy.cold_start_length >= -1
    assert np.isnan(policy.gamma) or policy.gamma > 0
    assert policy.n_fits >= policy.n_not_vouched >= 0
    counts, known = policy.n_by_arm, policy.n_acted_on
    if counts is not None:
        assert counts.shape == (k,)
        assert counts.sum() <= rounds
    assert counts is not None or rounds == 0
    if known is not None:
        assert counts is not None
        assert (known <= counts).all()
    best = policy.best(users)
    if best is not None:
        assert best.shape == (9, k)
        np.testing.assert_allclose(best.sum(axis=1), 1.0)


def test_the_paper_s_algorithm_acts_on_the_samples_of_saturated_arms_only():
    policy = paper(market())
    while not policy.cold.saturated:
        drive(policy, 1, seed=policy.rounds)
    waiting = [arm for arm in range(3) if arm not in policy.cold.saturated]
    assert policy.counts[waiting].any()
    assert policy.n_acted_on.tolist() == [5.0 if arm in policy.cold.saturated else 0.0 for arm in range(3)]
    assert policy.known_stage == ", ".join(market().arms[arm] for arm in policy.cold.saturated)
    assert (policy.cold_start_length, policy.known_stage != "most popular") == (-1, True)
    drive(policy, 200)
    assert policy.known_stage.startswith("epoch ")
    np.testing.assert_array_equal(policy.n_acted_on, policy.counts)
    assert 15 <= policy.cold_start_length < policy.rounds
    assert policy.exploitation is not None
    assert policy.gamma == policy.exploitation.gamma


def test_a_learner_acts_on_what_it_has_learnt():
    policy = rcb.baselines.LinUcb(market(), batch=10)
    drive(policy, 17)
    assert policy.n_by_arm.sum() == 17
    assert policy.n_acted_on.sum() == 10
    one_by_one = rcb.baselines.LinUcb(market())
    drive(one_by_one, 17)
    assert one_by_one.n_acted_on.sum() == 17


# --- one of one's own ------------------------------------------------------------------------------------------------


class Fixed:
    """An arm for everybody: three methods, and nothing inherited."""

    def __init__(self, arm: int) -> None:
        self.arm = arm

    def recommend_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(3)[self.arm], (len(x), 1))

    def decide(self, x: np.ndarray, features: np.ndarray, uniforms: np.ndarray) -> Decisions:
        probabilities = self.recommend_proba(x).T
        return chosen(probabilities, np.zeros(probabilities.shape), uniforms)

    def update(self, x: np.ndarray, decisions: Decisions, reward: np.ndarray) -> None:
        pass


def own(arm: int) -> PolicyMaker:
    def made(where: Market, seed: int) -> BarePolicy:
        return Fixed(arm)

    return made


def test_a_policy_of_one_s_own_is_simulated():
    assert not isinstance(Fixed(1), Policy)
    found = rcb.simulate(market(), own(1), horizon=200, n_worlds=3, seed=2)
    twin = rcb.simulate(market(), lambda m, seed: rcb.baselines.AlwaysArm(m, "new"), horizon=200, n_worlds=3, seed=2)
    np.testing.assert_array_equal(found["regret"], twin["regret"])
    assert (found["recommended"] == 1).all()
    assert found["n_samples"].isnull().all()  # it does not count
    assert (found["cold_start_length"] == 0).all()


@pytest.mark.parametrize("arm", [0, 1])
def test_a_policy_of_one_s_own_is_audited(arm: int):
    options: dict[str, Any] = {"horizon": 5, "n_worlds": 100, "users": [[1.0, 0.0]], "seed": 2}
    found = rcb.audit(market(), own(arm), **options)
    twin = rcb.audit(market(), lambda m, seed: rcb.baselines.AlwaysArm(m, m.arms[arm]), **options)
    assert found.verdict == ("fail" if arm else "pass")  # by the prior she likes the first
    assert found.margins["stage"].values.tolist() == ["round 1", "round 2", "round 4"]
    np.testing.assert_array_equal(found.margins["estimate"], twin.margins["estimate"])


def test_stages_of_one_s_own_are_looked_at_as_they_begin():
    class Staged(Fixed):
        rounds = 0
        n_acted_on = n_by_arm = None
        cold_start_length = n_fits = n_not_vouched = 0
        gamma = np.nan

        @property
        def known_stage(self) -> str:
            return "first ten" if self.rounds < 10 else "later"

        def decide(self, x: np.ndarray, features: np.ndarray, uniforms: np.ndarray) -> Decisions:
            n = 10 - self.rounds if self.rounds < 10 else len(x)
            return super().decide(x[:n], features[:, :n], uniforms[:n])

        def update(self, x: np.ndarray, decisions: Decisions, reward: np.ndarray) -> None:
            self.rounds += len(decisions)
            self.arm = 0 if self.rounds >= 10 else self.arm

        def best(self, x: np.ndarray) -> None:
            return None

    assert isinstance(Staged(1), Policy)
    found = rcb.audit(market(), lambda m, seed: Staged(1), horizon=50, n_worlds=60, users=[[1.0, 0.0]], seed=2)
    assert found.margins["stage"].values.tolist() == ["first ten", "later"]
    assert found.worst()["verdict"].sel(stage="first ten").item() == 2  # the arm she likes less


# --- functions of one's own ------------------------------------------------------------------------------------------


def prior_greedy(where: Market, seed: int) -> Policy:
    def recommend_proba(x: np.ndarray) -> np.ndarray:
        return best_shares(x @ where.prior.mean.values.T, axis=1)

    return as_policy(recommend_proba)


def averages(where: Market, seed: int) -> Policy:
    """The best average so far, for everybody."""
    total, n = np.zeros(where.n_arms), np.ones(where.n_arms)

    def recommend_proba(x: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(where.n_arms)[(total / n).argmax()], (len(x), 1))

    def update(x: np.ndarray, arm: np.ndarray, reward: np.ndarray) -> None:
        np.add.at(total, arm, reward)
        np.add.at(n, arm, 1.0)

    return as_policy(recommend_proba, update)


def test_functions_learn_after_every_round():
    runs = rcb.simulate(market(), averages, horizon=60, n_worlds=4, seed=3)
    for world, child in enumerate(np.random.SeedSequence(3).spawn(4)):
        page = (simulated := SimulatedWorld(market(), child)).page(0)
        total, n, arms = np.zeros(3), np.ones(3), []
        for x, noise in zip(page.x[:60], page.noise[:60], strict=True):  # the same by hand
            arm = int((total / n).argmax())
            total[arm] += x @ simulated.beta[arm] + SIGMA * noise
            n[arm] += 1
            arms.append(arm)
        assert runs["recommended"].isel(world=world).values.tolist() == arms
        assert runs["n_samples"].isel(world=world).values.tolist() == (n - 1).tolist()
    assert len(set(runs["recommended"].values.ravel())) > 1
    assert runs["gain"].isnull().all()  # what the functions expect is not known
    assert (runs["propensity"] == 1).all()


def test_functions_are_audited_as_any_policy():
    liked = rcb.audit(market(), prior_greedy, horizon=2, n_worlds=100, n_users=20, seed=1)
    assert liked.verdict == "pass"
    coin = rcb.audit(market(), of_functions, horizon=2, n_worlds=100, users=[[1.0, 0.0]], seed=1)
    assert coin.verdict == "fail"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: np.full((len(x), 3), 0.5), "sum to one"),
        (lambda x: np.tile([1.5, -0.5, 0.0], (len(x), 1)), "not negative"),
        (lambda x: np.full((len(x), 3), np.nan), "finite"),
        (lambda x: np.array([0.5, 0.5, 0.0]), "a row for each of 1 users"),
        (lambda x: np.full((len(x) + 1, 3), 1 / 3), "a row for each of 1 users"),
    ],
)
def test_probabilities_that_are_none_are_refused(wrong: Any, message: str):
    with pytest.raises(DataError, match=message):
        rcb.simulate(market(), lambda m, seed: as_policy(wrong), horizon=5, n_worlds=1)


@pytest.mark.parametrize("thing", [as_policy, Policy])
def test_the_examples_give_what_they_say(thing: Any):
    for example in examples_of(thing.__name__, thing):
        run(example)
