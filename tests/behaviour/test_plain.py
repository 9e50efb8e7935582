"""Users who do not weigh what they are told, and mixes of them: what they take, counts, posteriors, bad input."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import behaviour as b
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.decisions import EXPLOIT
from rcb_bayes.running.conduct import Behaviour
from rcb_bayes.running.policies import Rcb
from tests.behaviour.markets import market, oracle, plan, plan_of_three, three, truths

KINDS: list[Behaviour] = [b.Obedient(), b.Stubborn(), b.Stubborn(arm="new"), b.Contrary(), b.Random()]


@pytest.fixture(scope="module")
def stubborn() -> Any:
    """One in five users takes what she likes."""
    users = b.Mix(b.Obedient(), b.Stubborn(), shares=[0.8, 0.2])
    return rcb.simulate(
        market(), plan(), horizon=1500, n_worlds=300, behaviour=users, oracle=oracle(market()), every=1, seed=4
    )


def test_everybody_who_follows_is_the_run_without_a_behaviour() -> None:
    plain = rcb.simulate(three(), plan_of_three(), horizon=600, n_worlds=2, seed=7)
    obedient = rcb.simulate(three(), plan_of_three(), horizon=600, n_worlds=2, behaviour=b.Obedient(), seed=7)
    for name in plain.data_vars:
        assert np.array_equal(plain[name].values, obedient[name].values, equal_nan=True), name
    assert bool((obedient["followed"] == 1).all())
    assert float(obedient["offer_n"].sum()) == 2 * 600


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_what_users_take_has_the_shares_of_their_response(kind: Behaviour) -> None:
    here = three()
    runs = rcb.simulate(here, plan_of_three(), horizon=400, n_worlds=20, behaviour=kind, oracle=oracle(three()), seed=2)
    users = here.population.sample(20_000, seed=5)
    response = kind.response(here, users @ here.prior.mean.values.T)
    assert np.allclose(response.sum(axis=2), 1.0)
    # By hand, of each kind: what is taken given what is offered.
    taken = runs["offer_n"].sum("world").transpose("offered", "taken").values
    if isinstance(kind, b.Obedient):
        assert np.array_equal(taken, np.diag(np.diag(taken)))
    if isinstance(kind, b.Contrary):
        assert np.diag(taken).sum() == 0.0
    if kind == b.Stubborn(arm="new"):
        assert taken[:, [0, 2]].sum() == 0.0
    if isinstance(kind, b.Random):
        n = taken.sum()
        assert abs(np.diag(taken).sum() / n - 1 / 3) < 4 * np.sqrt(2 / 9 / n)
    if kind == b.Stubborn():
        n = taken.sum()
        share = response[:, 0].mean(axis=0)
        assert np.abs(taken.sum(axis=0) / n - share).max() < 4 * np.sqrt(share.max() / n + share.max() / 20_000)


def test_one_in_five_is_stubborn_and_counts_are_right(stubborn: Any) -> None:
    """Everybody likes the old arm, so that a fifth of what is promoted is not followed, and nothing else."""
    offered = stubborn["offer_n"].sum("world").transpose("offered", "taken").values
    n = offered[1].sum()
    assert offered[0, 1] == 0.0
    assert abs(offered[1, 0] / n - 0.2) < 4 * np.sqrt(0.16 / n)
    # Samples that count: N of each arm in the cold start, all arms taken later.
    later = (stubborn["stage"] == EXPLOIT).values
    taken = stubborn["chosen"].values
    for arm in range(2):
        expected = 10 + (later & (taken == arm)).sum(axis=1)
        assert np.array_equal(stubborn["n_samples"].values[:, arm], expected)


def test_propensities_are_those_of_what_was_recommended(stubborn: Any) -> None:
    """By Horvitz and Thompson each arm's inverse propensities add up to the rounds, whoever follows."""
    told, chance = stubborn["recommended"].values, stubborn["propensity"].values
    for arm in range(2):
        # Organic rounds give an arm no chance at all for some users: those with any chance are counted.
        first = (stubborn["stage"].values == 0) if arm == 0 else (stubborn["stage"].values == EXPLOIT)
        sums = np.where((told == arm) & first, 1.0 / chance, 0.0).sum(axis=1)
        there = first.sum(axis=1)
        error = (sums - there).std(ddof=1) / np.sqrt(len(sums))
        if arm == 0:
            assert np.array_equal(sums, there)
        else:
            assert abs((sums - there).mean()) < 4 * error


def test_posteriors_are_unbiased_where_a_fifth_is_stubborn(stubborn: Any) -> None:
    """Ranks of the truth in its posterior are uniform (simulation-based calibration)."""
    found = b.instrument(stubborn, market())
    assert _is_calibrated(found, truths(market(), 300, seed=4))


def test_ranks_catch_users_who_choose_by_what_they_get() -> None:
    users = b.Refusal(arm="new", share=0.2, known=0.5)
    runs = rcb.simulate(
        market(), plan(), horizon=1500, n_worlds=300, behaviour=users, oracle=oracle(market()), every=1500, seed=4
    )
    with pytest.warns(rcb.errors.ConfoundingWarning):
        found = b.instrument(runs, market())
    assert not _is_calibrated(found, truths(market(), 300, seed=4))


def _is_calibrated(found: Any, truth: np.ndarray) -> bool:
    from scipy.special import ndtr
    from scipy.stats import chi2

    ranks = ndtr((truth - found["naive"].values) / found["naive_mcse"].values).reshape(len(truth), -1)
    counts = np.stack([np.histogram(column, bins=10, range=(0.0, 1.0))[0] for column in ranks.T])
    expected = len(truth) / 10
    statistic = ((counts - expected) ** 2 / expected).sum(axis=1)
    return bool((statistic < chi2.isf(1e-4 / len(statistic), 9)).all())


def test_a_mix_within_a_mix_is_the_same_shares() -> None:
    inner = b.Mix(b.Obedient(), b.Random(), shares=[0.5, 0.5])
    users = b.Mix(inner, b.Contrary(), shares=[0.6, 0.4])
    runs = rcb.simulate(market(), plan(), horizon=2000, n_worlds=10, behaviour=users, seed=1)
    n = 20_000
    assert abs(float(runs["followed"].mean()) - (0.3 + 0.15)) < 4 * np.sqrt(0.25 / n)


def test_other_policies_have_users_too() -> None:
    users = b.Mix(b.Obedient(), b.Stubborn(), shares=[0.5, 0.5])
    runs = rcb.simulate(
        market(),
        lambda own, seed: rcb.baselines.HiddenExploration(own, n_per_arm=5, inverse_rate=3.0, seed=seed),
        horizon=300,
        n_worlds=3,
        behaviour=users,
        seed=1,
    )
    assert bool((runs["cold_start_length"] > 0).all())
    assert 0.5 < float(runs["followed"].mean()) < 1.0


def test_the_answer_does_not_depend_on_blocks_or_workers() -> None:
    users = b.as_behaviour("obedient .5, random .5")
    whole = rcb.simulate(three(), plan_of_three(), horizon=300, n_worlds=2, behaviour=users, seed=3)
    thin = rcb.simulate(three(), plan_of_three(), horizon=300, n_worlds=2, behaviour=users, every=50, seed=3)
    assert np.allclose(whole["followed"].sum("t"), thin["followed"].sum("t"))
    one = rcb.simulate(
        three(), lambda own, seed: Rcb(own, plan_of_three()), horizon=300, n_worlds=2, behaviour=users, seed=3
    )
    assert np.array_equal(whole["chosen"], one["chosen"])


def test_stores_keep_what_users_did(tmp_path: Any) -> None:
    users = b.as_behaviour("obedient .5, random .5")
    asked: dict[str, Any] = {"horizon": 100, "n_worlds": 2, "behaviour": users, "seed": 3}
    held = rcb.simulate(market(), plan(), **asked, store=tmp_path / "runs.zarr")
    plain = rcb.simulate(market(), plan(), **asked)
    for name in plain.data_vars:
        assert np.array_equal(held[name].values, plain[name].values, equal_nan=True), name
    assert held["offer_n"].sel(offered="new").dims == plain["offer_n"].sel(offered="new").dims
    with pytest.raises(RcbError, match="another run: behaviour"):
        rcb.simulate(
            market(), plan(), horizon=100, n_worlds=2, behaviour=b.Obedient(), seed=3, store=tmp_path / "runs.zarr"
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: b.Mix(b.Obedient(), b.Random(), shares=[0.8, 0.1]), "sum to 0.9"),
        (lambda: b.Mix(b.Obedient(), shares=[0.5, 0.5]), "1 kinds, got 2 shares"),
        (lambda: b.Mix(shares=[]), "a share for each kind"),
        (lambda: b.Mix(b.Obedient(), b.Random(), shares=[1.2, -0.2]), "at least 0, got -0.2"),
        (lambda: b.as_behaviour("obedient .8, stuborn .2"), "Did you mean 'stubborn'"),
        (lambda: b.as_behaviour("obedient .8, stubborn"), "has a share"),
        (lambda: b.as_behaviour("obedient .8 .2"), "got 'obedient .8 .2'"),
        (lambda: b.as_behaviour("obedient .8, random .1"), "sum to 0.9"),
        (lambda: b.Trust(epsilon=-1.0), "epsilon"),
        (lambda: b.Trust(least=2.0, most=1.0), "least is at most most"),
        (lambda: b.Refusal(share=1.5), "share must be a number between 0 and 1"),
        (lambda: b.Rational(epsilon=-0.1), "epsilon"),
        (lambda: b.Rational(knows="stages"), "Did you mean 'stage'"),
        (lambda: b.Rational(n_worlds=2), "n_worlds"),
    ],
)
def test_behaviours_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        make()


@pytest.mark.parametrize(
    "users",
    [b.Stubborn(arm="newer"), b.Refusal(arm="newer"), b.Mix(b.Obedient(), b.Stubborn(arm="newer"), shares=[0.5, 0.5])],
    ids=repr,
)
def test_arms_that_are_not_there(users: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rcb_bayes.running.simulation.run_blocks", _never)
    with pytest.raises(RcbError, match=r"There is no arm 'newer'\. Did you mean 'new'"):
        rcb.simulate(market(), plan(), horizon=10, n_worlds=1, behaviour=users)
    agent = rcb.Recommender(market(), plan())
    with pytest.raises(RcbError, match="There is no arm 'newer'"):
        b.LiveUsers(agent, users)


def _never(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("something was drawn")
