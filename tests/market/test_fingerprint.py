"""What a plan was made for: fingerprints that are stable, tell things apart, and are looked at where plans are run."""

import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.fingerprint import differ, of_belief, of_noise, of_users
from rcb_bayes.planning.checks import check_plan, plan_differs
from tests.planning.revising import revised

MEAN = [[0.5, 0.2], [0.2, 0.2]]


def gaussian(variance: float = 0.25) -> Prior:
    return Prior.gaussian(MEAN, variance, arms=["old", "new"])


@cache
def market() -> Market:
    return Market(prior=gaussian(), covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=10, n_worlds=300, guard=False, seed=1)


# --- the fingerprints themselves -------------------------------------------------------------------------------------


def test_a_belief_is_told_by_its_law():
    assert of_belief(gaussian()) == of_belief(Prior.gaussian(MEAN, 0.25 * np.eye(4), name="another name"))
    assert of_belief(gaussian()) == of_belief(Prior.gaussian(np.array(MEAN) * (1 + 1e-13), 0.25))
    others = [gaussian(2.5), gaussian(0.25 * (1 + 1e-7)), Prior.gaussian(MEAN[::-1], 0.25)]
    assert len({of_belief(prior) for prior in [gaussian(), *others]}) == 4


def test_a_table_is_told_by_its_rows_in_any_order():
    rows = np.random.default_rng(1).random((50, 2))
    weights = np.arange(1.0, 51.0)
    order = np.random.default_rng(2).permutation(50)
    one = of_users(rcb.Empirical(rows, weights=weights))
    assert of_users(rcb.Empirical(rows[order], weights=weights[order])) == one
    assert of_users(rcb.Empirical(rows, weights=weights[::-1])) != one
    assert of_users(rcb.Empirical(rows)) == of_users(rcb.Empirical(np.concatenate([rows, rows])))  # the same shares
    assert of_users(rcb.Sphere(2)) != of_users(rcb.Ball(2))
    assert of_users(rcb.Uniform([0, 0], [1, 1])) != of_users(rcb.Uniform([0, 0], [1, 2]))


def test_noise_is_told_by_kind_and_sigma():
    kinds = [rcb.GaussianNoise(0.3), rcb.GaussianNoise(0.31), rcb.GaussianNoise(), rcb.BernoulliLogit()]
    assert len({of_noise(noise) for noise in kinds}) == 4


def test_fingerprints_are_the_same_in_another_process():
    script = "from tests.market.test_fingerprint import market; print(sorted(market().fingerprint().items()))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == str(sorted(market().fingerprint().items()))


@pytest.mark.slow
def test_a_belief_without_a_closed_form_is_told_by_its_draws():
    script = "import rcb_bayes as rcb; from rcb_bayes.market.fingerprint import of_belief; "
    script += "print(of_belief(rcb.load_prior('student_t', n_arms=2, n_features=2)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = of_belief(rcb.load_prior("student_t", n_arms=2, n_features=2))
    assert done.stdout.strip() == ours
    assert differ(ours, of_belief(rcb.load_prior("student_t", n_arms=2, n_features=2, scale=0.7)))
    assert differ(ours, of_belief(gaussian()))


def test_draws_of_two_versions_say_nothing():
    assert differ("pymc 6.3.2:aa", "pymc 6.3.2:bb")
    assert not differ("pymc 6.3.2:aa", "pymc 6.4.0:bb")
    assert not differ("", "aa")


# --- plans -----------------------------------------------------------------------------------------------------------


def test_every_plan_knows_what_it_was_made_for():
    fixed = rcb.fixed_plan(market(), n_per_arm=5, exploration_rate=0.1)
    theorem = rcb.theorem_plan(market(), epsilon=0.1, tau=0.01, rho=0.4)
    for made in (plan(), fixed, theorem):
        assert made.made_of == market().fingerprint()
        assert Plan.from_json(made.to_json()).made_of == made.made_of
        check_plan(market(), made)
        assert plan_differs(market(), made) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": gaussian(2.5)}, "The platform's belief is not the one that the plan was made for"),
        ({"platform_prior": gaussian(2.5)}, "The platform's belief is not"),
        ({"noise": rcb.GaussianNoise(0.6)}, "The noise is not the one"),
        ({"prior": gaussian(2.5), "noise": rcb.GaussianNoise(0.6)}, "belief and the noise are not those"),
    ],
)
def test_a_plan_for_another_platform_is_not_run(change: dict, message: str):
    other = Market(**({"prior": gaussian(), "covariates": market().covariates, "noise": market().noise} | change))
    with pytest.raises(RcbError, match=message):
        rcb.Recommender(other, plan())
    with pytest.raises(RcbError, match=message):
        rcb.simulate(other, plan(), horizon=20, n_worlds=1)
    found = rcb.audit(other, plan(), horizon=30, n_worlds=60, n_users=5)  # a question one may ask
    assert any("made for another market" in note for note in found.notes)


def test_another_nature_is_nobodys_business():
    other = replace_market(nature=gaussian(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rcb.simulate(other, plan(), horizon=20, n_worlds=1)
        rcb.Recommender(other, plan())
    found = rcb.audit(other, plan(), horizon=30, n_worlds=60, n_users=5)
    assert not any("another market" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": gaussian(0.5), "platform_prior": gaussian()}, "the users' belief of this market"),
        ({"covariates": rcb.Uniform([0, 0], [1, 1.5])}, "the population of this market"),
    ],
)
def test_other_users_are_pointed_out(change: dict, message: str):
    other = replace_market(**change)
    with pytest.warns(UserWarning, match=message):
        rcb.Recommender(other, plan())
    rcb.simulate(other, plan(), horizon=20, n_worlds=1)


def test_a_plan_that_does_not_know_is_taken_as_it_is():
    other = replace_market(prior=gaussian(2.5))
    rcb.Recommender(other, revised(plan(), made_of={}))


def replace_market(**change: object) -> Market:
    values = {"prior": market().prior, "covariates": market().covariates, "noise": market().noise} | change
    return Market(**values)  # pyright: ignore[reportArgumentType]
