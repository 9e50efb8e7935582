"""Replay is unbiased, its error is that of patients and orders, and plain loops give the same."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.studies.actg import Run, Trial, designer_market, greedy_maker, replay_runs, replay_value, thompson_maker
from rcb_bayes.studies.actg.trial import ARMS, FEATURES

EFFECTS = np.array([0.0, 1.0, 0.5, 0.2])


def simulated_trial(n: int, *, seed: int) -> Trial:
    """Patients of a known law: arms at random, rewards with effects that depend on the first feature."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, len(FEATURES)))])
    arm = rng.integers(0, 4, n)
    reward = EFFECTS[arm] + 0.5 * x[:, 1] * (arm == 0) + rng.normal(size=n)
    return Trial(features=x, names=("intercept", *FEATURES), arm=arm, reward=reward, outcome="cd4", source="simulated")


class OneByOne:
    """A policy that answers for one user at a time: replay then is the loop of the paper."""

    def __init__(self, policy) -> None:
        self.policy = policy

    def recommend_proba(self, x):
        return self.policy.recommend_proba(x)

    def decide(self, x, features, uniforms) -> Decisions:
        return self.policy.decide(x[:1], features[:, :1], uniforms[:1])

    def update(self, x, decisions, reward) -> None:
        self.policy.update(x, decisions, reward)


@pytest.fixture(scope="module")
def market() -> Market:
    return designer_market(simulated_trial(300, seed=0), "sceptical")


def test_blocks_are_the_plain_loop(market: Market) -> None:
    trial = simulated_trial(300, seed=1)
    for one, other in zip(
        replay_runs(trial, greedy_maker, market, n_orders=2, seed=3),
        replay_runs(trial, lambda m, s: OneByOne(greedy_maker(m, s)), market, n_orders=2, seed=3),
        strict=True,
    ):
        np.testing.assert_array_equal(one.patient, other.patient)
        np.testing.assert_array_equal(one.arm, other.arm)
        np.testing.assert_allclose(one.probabilities, other.probabilities)


def test_kept_patients_had_the_arm_and_are_there_once(market: Market) -> None:
    trial = simulated_trial(300, seed=2)
    (run,) = replay_runs(trial, thompson_maker, market, n_orders=1, seed=1)
    np.testing.assert_array_equal(trial.arm[run.patient], run.arm)
    assert len(set(run.patient.tolist())) == len(run)
    assert (run.probabilities[np.arange(len(run)), run.arm] > 0).all()


class Leaning:
    """A policy that learns: the arm with the best average so far, among those tried, and half of the time any."""

    def __init__(self) -> None:
        self.total, self.n = np.zeros(4), np.zeros(4)

    def recommend_proba(self, x):
        best = np.eye(4)[int(np.argmax(self.total / np.maximum(self.n, 1.0)))]
        return np.tile(0.5 * best + 0.125, (len(x), 1))

    def decide(self, x, features, uniforms) -> Decisions:
        chances = self.recommend_proba(x[:1]).T
        return chosen(chances, np.zeros(chances.shape), uniforms)

    def update(self, x, decisions, reward) -> None:
        np.add.at(self.total, decisions.arm, reward)
        np.add.at(self.n, decisions.arm, 1.0)


def leaning_live(seed: int, n_rounds: int) -> float:
    """The same policy on users of its own: the truth that a replay is to find."""
    rng = np.random.default_rng(seed)
    policy, got = Leaning(), 0.0
    for _ in range(n_rounds):
        arm = rng.choice(4, p=policy.recommend_proba(np.zeros((1, 6)))[0])
        reward = EFFECTS[arm] + (0.5 * rng.normal() if arm == 0 else 0.0) + rng.normal()
        policy.total[arm] += reward
        policy.n[arm] += 1
        got += reward / n_rounds
    return got


def test_replay_has_the_mean_of_live_runs(market: Market) -> None:
    live = np.array([leaning_live(seed, 25) for seed in range(1500)])
    replayed = []
    for seed in range(120):
        trial = simulated_trial(180, seed=10_000 + seed)
        runs = replay_runs(trial, lambda m, s: Leaning(), market, n_orders=1, seed=seed)
        replayed.append(replay_value(trial, runs, n_rounds=25).value)
    error = np.hypot(np.std(replayed) / np.sqrt(120), live.std() / np.sqrt(1500))
    assert abs(np.mean(replayed) - live.mean()) < 4 * error
    planted = live.mean() + 0.25  # what keeping patients by their rewards would do
    assert abs(np.mean(replayed) - planted) > 4 * error


def test_values_and_errors_are_plain_sums() -> None:
    trial = simulated_trial(40, seed=5)
    rng = np.random.default_rng(1)
    runs = []
    for _ in range(3):
        patient = rng.permutation(40)[:12]
        runs.append(
            Run(patient=patient, arm=trial.arm[patient], stage=np.full(12, 3), probabilities=np.full((12, 4), 0.25))
        )
    found = replay_value(trial, runs, n_rounds=10)
    means = [sum(trial.reward[i] for i in run.patient[:10]) / 10 for run in runs]
    value = sum(means) / 3
    patients = 0.0
    for i in range(40):
        places = [0.1 if i in run.patient[:10] else 0.0 for run in runs]
        share = sum(places) / 3
        spread = sum((p - share) ** 2 for p in places) / 2 / 3
        patients += (share**2 - spread) * (trial.reward[i] - value) ** 2
    orders = sum((m - value) ** 2 for m in means) / 2 / 3
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.order_mcse**2 == pytest.approx(orders, abs=1e-12)
    assert found.patient_mcse**2 == pytest.approx(max(patients * 40 / 39, 0.0), abs=1e-12)
    assert found.mcse**2 == pytest.approx(found.patient_mcse**2 + orders, abs=1e-12)


def test_intervals_know_that_orders_are_few(market: Market) -> None:
    """Values whose error is that of six orders: by Student's t 95 % hold the mean, by a normal interval too few do."""
    trial = simulated_trial(60, seed=3)
    rng = np.random.default_rng(2)
    flat = replace(trial, reward=np.zeros(60))  # nothing varies between patients
    patient = np.arange(60)[:12]
    run = Run(patient=patient, arm=flat.arm[patient], stage=np.full(12, 3), probabilities=np.full((12, 4), 0.25))
    plain = replay_value(flat, [run] * 6, n_rounds=10)
    held = np.zeros(2)
    for _ in range(2000):
        means = rng.normal(size=6)
        found = replace(plain, value=means.mean(), order_mcse=means.std(ddof=1) / np.sqrt(6), patient_mcse=0.0)
        lower, upper = found.bounds(0.05)
        held += lower <= 0.0 <= upper, abs(found.value) <= 1.96 * found.order_mcse
    assert stats.binomtest(int(held[0]), 2000, 0.95).pvalue > 1e-4
    assert stats.binomtest(int(held[1]), 2000, 0.95, alternative="less").pvalue < 1e-6  # the planted one
    of_patients = replace(plain, patient_mcse=0.1, order_mcse=0.0)
    half = stats.t.isf(0.025, 59) * 0.1
    assert of_patients.bounds(0.05) == pytest.approx((-half, half))
    assert of_patients.bounds(0.05, share=0.25) == pytest.approx((-half / 2, half / 2))


def test_the_log_of_a_run_is_one_for_evaluate(market: Market) -> None:
    from rcb_bayes.evaluation import evaluate

    trial = simulated_trial(400, seed=7)
    (run,) = replay_runs(trial, lambda m, s: Leaning(), market, n_orders=1, seed=1)
    found = evaluate(run.log(trial), ARMS[1], market, estimators=["adaptive"])
    assert float(found["lower"][0]) < 1.0 < float(found["upper"][0])


def test_what_cannot_be_replayed_is_refused(market: Market) -> None:
    trial = simulated_trial(60, seed=1)
    runs = replay_runs(trial, greedy_maker, market, n_orders=1)
    with pytest.raises(DataError, match="No order kept 100 patients"):
        replay_value(trial, runs, n_rounds=100)
    other = Trial(
        features=trial.features[:, :2],
        names=trial.names[:2],
        arm=trial.arm,
        reward=trial.reward,
        outcome="cd4",
        source="",
    )
    with pytest.raises(RcbError, match="must have the trial's arms"):
        replay_runs(other, greedy_maker, market)
    with pytest.raises(RcbError, match="n_orders"):
        replay_runs(trial, greedy_maker, market, n_orders=0)
