"""What most baselines share: probabilities that agree with decisions, batches, asking without a trace, bad input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market
from rcb_bayes.errors import RcbError
from rcb_bayes.running.policies import Policy
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import USERS, alike, clicks, drive, market

Maker = Callable[[Market, int], Policy]
ANYWHERE: dict[str, Maker] = {
    "greedy": lambda m, seed: rcb.baselines.Greedy(m, seed=seed),
    "greedy in batches": lambda m, seed: rcb.baselines.Greedy(m, batch=7, seed=seed),
    "epsilon greedy": lambda m, seed: rcb.baselines.EpsilonGreedy(m, rate=0.2, batch=5, seed=seed),
    "decaying": lambda m, seed: rcb.baselines.EpsilonGreedy(m, rate=1.0, decay=1.0, hold=20, batch=5, seed=seed),
    "explore then commit": lambda m, seed: rcb.baselines.ExploreThenCommit(m, n_per_arm=5, seed=seed),
    "LinUCB": lambda m, seed: rcb.baselines.LinUcb(m, batch=7, seed=seed),
    "Thompson": lambda m, seed: rcb.baselines.LinThompson(m, batch=7, seed=seed),
    "FALCON": lambda m, seed: rcb.baselines.Falcon(m, seed=seed),
    "lasso": lambda m, seed: rcb.baselines.LassoBandit(m, batch=5, seed=seed),
    "always": lambda m, seed: rcb.baselines.AlwaysArm(m, m.arms[1], seed=seed),
    "warm Thompson": lambda m, seed: rcb.baselines.WarmThompson(m, n_per_arm=5, collect="in turn", batch=7, seed=seed),
    "hidden": lambda m, seed: rcb.baselines.HiddenExploration(m, n_per_arm=4, inverse_rate=3.0, seed=seed),
    "repeated": lambda m, seed: rcb.baselines.RepeatedHiddenExploration(
        m,
        lambda m, s: rcb.baselines.LinUcb(m, seed=s),
        n_per_arm=3,
        inverse_rate=3.0,
        warm_up="all",
        rate=0.2,
        seed=seed,
    ),
}
ALIKE: dict[str, Maker] = {
    "Kremer": lambda m, seed: rcb.baselines.Kremer(m, n_samples=2, seed=seed),
    "repeated, two arms": lambda m, seed: rcb.baselines.RepeatedHiddenExploration(
        m, lambda m, s: rcb.baselines.EpsilonGreedy(m, rate=0.5, seed=s), seed=seed
    ),
    "hidden, own rate": lambda m, seed: rcb.baselines.HiddenExploration(m, seed=seed),
}


def cases() -> list[Any]:
    anywhere = [pytest.param(make, market(), id=name) for name, make in ANYWHERE.items()]
    return anywhere + [pytest.param(make, alike(), id=name) for name, make in ALIKE.items()]


@pytest.mark.parametrize(("make", "where"), cases())
@pytest.mark.parametrize("rounds", [0, 11, 150])
def test_probabilities_agree_with_the_next_decision(make: Maker, where: Market, rounds: int):
    policy = make(where, 3)
    drive(policy, rounds, where=where)
    users = where.covariates.sample(40, seed=8)
    found = policy.recommend_proba(users)
    assert found.shape == (40, where.n_arms)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(policy.recommend_proba(users), found)  # asking changes nothing
    if isinstance(policy, rcb.baselines.LinThompson | rcb.baselines.WarmThompson):
        return  # each user has draws of her own: compared in law elsewhere
    for user in (0, 7):
        decisions = policy.decide(users[user : user + 1], users[user : user + 1].T.copy(), np.full((1, 2), 0.999))
        np.testing.assert_allclose(decisions.probabilities[:, 0], found[user], atol=1e-12)


@pytest.mark.parametrize(("make", "where"), cases())
def test_everything_is_simulated(make: Maker, where: Market):
    found = simulate(where, make, horizon=300, n_worlds=2, seed=1)
    assert np.isfinite(found["regret"]).all()
    assert (found["regret"] >= 0).all()
    assert (found["propensity"] > 0).all()
    assert (found["n_samples"].sum("arm") <= 300).all()
    again = simulate(where, make, horizon=300, n_worlds=2, seed=1)
    np.testing.assert_array_equal(found["recommended"], again["recommended"])


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("greedy", ("pass",)),  # what users would do themselves
        ("epsilon greedy", ("fail",)),  # the others promise users nothing in the first round
        ("Thompson", ("fail",)),
        ("FALCON", ("fail",)),
        ("Kremer", ("pass", "inconclusive")),  # with equality in some rounds, which 60 worlds need not decide
        ("hidden, own rate", ("pass", "inconclusive")),
    ],
)
def test_everything_is_audited(name: str, verdicts: tuple[str, ...]):
    make = (ANYWHERE | ALIKE)[name]
    found = rcb.audit(alike(), make, horizon=32, n_worlds=60, n_users=1)
    assert found.verdict in verdicts
    assert found.margins["stage"].values.tolist() == [f"round {2**k}" for k in range(6)]
    first = found.margins.sel(stage="round 1", arm="arm_1", rival="arm_0")["estimate"].item()
    if "fail" in verdicts:
        assert first == pytest.approx(-0.3)  # nothing is known yet but the prior's means, .3 and 0
    else:
        assert np.isnan(first)  # nobody is told the arm she does not like


@pytest.mark.parametrize(
    "make",
    [
        lambda m, seed: rcb.baselines.EpsilonGreedy(m, batch=25, seed=seed),
        lambda m, seed: rcb.baselines.ExploreThenCommit(m, n_per_arm=10, seed=seed),
        lambda m, seed: rcb.baselines.LinUcb(m, batch=25, seed=seed),
        lambda m, seed: rcb.baselines.LinThompson(m, batch=25, seed=seed),
        lambda m, seed: rcb.baselines.Falcon(m, n_per_arm=10, seed=seed),
        lambda m, seed: rcb.baselines.LassoBandit(m, batch=10, seed=seed),
        lambda m, seed: rcb.baselines.AlwaysArm(m, "arm_0", seed=seed),
        lambda m, seed: rcb.baselines.HiddenExploration(m, n_per_arm=8, inverse_rate=3.0, seed=seed),
        lambda m, seed: rcb.baselines.WarmThompson(m, n_per_arm=8, collect="in turn", batch=25, seed=seed),
    ],
)
def test_clicks_are_served(make: Maker):
    found = simulate(clicks(), make, horizon=100, n_worlds=1, seed=1)
    assert (found["regret"] < 1).all()
    assert (found["regret"] >= 0).all()


def test_batches_learn_when_they_are_full():
    policy = rcb.baselines.Greedy(market(), batch=10)
    before = policy.recommend_proba(USERS)
    drive(policy, 9)
    np.testing.assert_array_equal(policy.recommend_proba(USERS), before)
    drive(policy, 1, seed=2)
    assert (policy.recommend_proba(USERS) != before).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rcb.baselines.AlwaysArm(market(), "usal"), "There is no arm 'usal'. Did you mean 'usual'?"),
        (lambda: rcb.baselines.Greedy(market(), batch=0), "batch must be an integer of at least 1, got 0"),
        (lambda: rcb.baselines.Greedy(market(), seed=-1), "seed must be"),
        (lambda: rcb.baselines.EpsilonGreedy(market(), rate=1.5), "rate must be a number between 0 and 1, got 1.5"),
        (lambda: rcb.baselines.EpsilonGreedy(market(), rate=float("nan")), "rate must be a number between 0 and 1"),
        (lambda: rcb.baselines.EpsilonGreedy(market(), decay=-1.0), "decay must be"),
        (lambda: rcb.baselines.EpsilonGreedy(market(), hold=0), "hold must be a positive number"),
        (lambda: rcb.baselines.ExploreThenCommit(market(), n_per_arm=0), "n_per_arm must be an integer of at least 1"),
        (lambda: rcb.baselines.LinUcb(market(), width=-0.1), "width must be"),
        (lambda: rcb.baselines.LinUcb(market(), oracle=rcb.RidgeOracle()), "needs an oracle with posterior variances"),
        (lambda: rcb.baselines.LinThompson(market(), n_draws=0), "n_draws must be"),
        (lambda: rcb.baselines.Falcon(market(), n_per_arm=0), "n_per_arm must be"),
        (lambda: rcb.baselines.Falcon(market(), options=rcb.Exploiting(spread="papr")), "Did you mean 'paper'?"),  # pyright: ignore
        (lambda: rcb.baselines.LassoBandit(market(), n_forced=0), "n_forced must be"),
        (lambda: rcb.baselines.LassoBandit(market(), localization=0.0), "localization must be a positive number"),
        (lambda: rcb.baselines.LassoBandit(market(), penalty_all=-1.0), "penalty_all must be a positive number"),
    ],
)
def test_bad_input_is_refused_in_a_line(make: Callable[[], Any], message: str):
    with pytest.raises(RcbError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
