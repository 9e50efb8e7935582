"""Audits that fit in a time: sized by what trials take, and by nothing that they found."""

import math

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.auditing.budget import Sized, as_seconds, size_for
from rcb_bayes.auditing.result import Audit
from rcb_bayes.errors import RcbError

ALWAYS, EACH = 2.0, 0.01


@pytest.fixture(scope="module")
def audits() -> dict[int, Audit]:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)
    return {n: rcb.audit(market, plan, horizon=60, n_worlds=n, n_users=20, seed=2) for n in (100, 400, 4000)}


class Watch:
    """A clock that trials move on."""

    def __init__(self, audits: dict[int, Audit], *, each: float = EACH) -> None:
        self.now, self.each, self.audits = 0.0, each, audits
        self.made: list[int] = []

    def __call__(self) -> float:
        return self.now

    def trial(self, n: int) -> Audit:
        self.now += ALWAYS + self.each * n + (5.0 if not self.made else 0.0)  # compiled once
        self.made.append(n)
        return self.audits[n]


def test_worlds_fill_the_time_that_is_left(audits: dict[int, Audit]) -> None:
    watch = Watch(audits)
    sized = size_for(watch.trial, seconds=120.0, clock=watch)
    spent = watch.now
    assert watch.made == [100, 100, 400]
    took = ALWAYS + EACH * sized.n_worlds
    assert spent + took <= 120.0
    assert took > 0.8 * (120.0 - spent)


def test_slow_audits_have_few_worlds_and_no_second_trial(audits: dict[int, Audit]) -> None:
    watch = Watch(audits, each=1.0)
    assert size_for(watch.trial, seconds=60.0, clock=watch).n_worlds == 100
    assert watch.made == [100]
    watch = Watch(audits, each=0.2)
    assert 50 <= size_for(watch.trial, seconds=120.0, clock=watch).n_worlds < 500
    assert watch.made == [100, 100]


def test_the_precision_is_about_that_of_as_many_worlds(audits: dict[int, Audit]) -> None:
    watch = Watch(audits)
    sized = size_for(watch.trial, seconds=60.0, clock=watch)
    worst = audits[4000].worst()
    widths = 0.5 * (worst["upper"] - worst["lower"]).values * math.sqrt(4000 / sized.n_worlds)
    assert widths.max() / 2 < sized.half_width < 2 * widths.max()


def test_it_is_told_in_a_line() -> None:
    assert Sized(n_worlds=12_400, seconds=300.0, half_width=0.00412).words() == (
        "within 5 min: 12,400 worlds; every stage's lowest margin will be known to about ±0.0041"
    )
    assert Sized(n_worlds=100, seconds=60.0, half_width=np.nan).words() == "within 60 s: 100 worlds"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), (" 5 min", 300.0), ("1.5h", 5400.0)])
def test_times(text: str, seconds: float) -> None:
    assert as_seconds(text) == seconds


@pytest.mark.parametrize("text", ["5", "5 minutes", "min", "-5min", "1s", "0h"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(RcbError, match=r"such as 5min|Nothing can be told"):
        as_seconds(text)
