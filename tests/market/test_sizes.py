"""Sizes that would not fit or not end are refused before anything is drawn, and usual ones are not."""

from typing import Any

import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior, RcbError
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import sizes
from rcb_bayes.schema import as_count, is_number

HUGE = 10**15


def market(d: int = 2) -> Market:
    return Market(
        prior=Prior.gaussian([[0.5] * d, [0.0] * d], 0.2), covariates=rcb.Sphere(d), noise=rcb.GaussianNoise(0.3)
    )


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(*_: Any, **__: Any) -> None:
        raise AssertionError("something was drawn")

    monkeypatch.setattr(Prior, "draw_arrays", draw)
    monkeypatch.setattr(rcb.Sphere, "sample", draw)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: rcb.calibrate(m, n_per_arm=2**31), "n_per_arm must be at most 1,000,000,000"),
        (lambda m: rcb.calibrate(m, n_per_arm=10**8), "random numbers, and 1e[+]11 are the most"),
        (lambda m: rcb.calibrate(m, n_worlds=HUGE), "Ask for fewer samples or worlds"),
        (lambda m: rcb.calibrate(m, audit_worlds=HUGE), "this machine has"),
        (lambda m: rcb.calibrate(m, n_per_arm=10**40), "at most 4,611,686,018,427,387,904, got about 10.40"),
        (lambda m: rcb.check_assumptions(m, n_worlds=HUGE), "Ask for fewer samples or worlds"),
        (lambda m: rcb.estimate_gaps(m, saturated=["arm_0"], n_per_arm=2**31), "n_per_arm must be at most"),
        (lambda m: Stages(m, n_per_arm=1, n_worlds=10**9), "need some 576 GB, and this machine has"),
        (lambda m: rcb.fixed_plan(m, n_per_arm=2**31), "n_per_arm must be an integer of at most 1,000,000,000"),
        (
            lambda m: rcb.simulate(m, lambda own, seed: rcb.baselines.Greedy(own), horizon=9, n_worlds=HUGE),
            "take an hour",
        ),
        (lambda m: rcb.simulate(m, lambda own, seed: rcb.baselines.Greedy(own), n_worlds=1, horizon=10**10), "GB"),
        (lambda m: rcb.audit(m, lambda own, seed: rcb.baselines.Greedy(own), n_users=2**62), "users need some"),
        (lambda m: rcb.audit(m, lambda own, seed: rcb.baselines.Greedy(own), n_worlds=HUGE), "this machine has"),
        (lambda m: rcb.report(m, sizes=rcb.ReportSizes(audit_users=HUGE)), "users need some"),
        (lambda m: rcb.report(m, sizes=rcb.ReportSizes(run_worlds=HUGE)), "take an hour"),
        (lambda m: rcb.report(m, sizes=rcb.ReportSizes(map_users=HUGE)), "map_users must be at most 100,000"),
        (lambda m: rcb.GaussianNoise(1e60), "between 1e-50 and 1e[+]50"),
        (lambda m: rcb.GaussianNoise(1e-60), "between 1e-50 and 1e[+]50"),
        (lambda m: rcb.load_prior("gaussian", n_arms=200, n_features=200), "40,000 coefficients, and 10,000"),
        (lambda m: rcb.load_prior("gaussian", n_features=10**30), "n_features must be an integer of at most 10,000"),
    ],
)
def test_they_are_refused_before_anything_is_drawn(call: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "memory", lambda: 32 * 10**9)
    with pytest.raises(RcbError, match=message):
        call(market())


def test_usual_sizes_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of 4 GB: the largest defaults, sixteen times the worlds of an audit, ten arms, a million rounds."""
    monkeypatch.setattr(sizes, "memory", lambda: 4 * 10**9)
    wide = Market(prior=Prior.gaussian([[0.0] * 5] * 10, 0.2), covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.3))
    sizes.check_stage_size(wide, n_per_arm=1000, n_worlds=20_000)
    sizes.check_plan_size(wide, n_per_arm=1000, n_worlds=8000, audit_worlds=16_000)
    sizes.check_audit_size(market(), n_worlds=16_000, n_users=100)
    sizes.check_audit_size(wide, n_worlds=4000, n_users=100)
    sizes.check_run_size(horizon=1_000_000, n_worlds=20, every=4)


def many_arms(n_arms: int) -> Market:
    mean = [[0.3 - 0.001 * arm] + [0.0] * 4 for arm in range(n_arms)]
    return Market(prior=Prior.gaussian(mean, 0.2), covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.3))


def test_two_hundred_arms_fit_four_gibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "memory", lambda: 4 * 2**30)
    wide = many_arms(200)
    sizes.check_plan_size(wide, n_per_arm=20, n_worlds=500, by_set=False)
    sizes.check_audit_size(wide, n_worlds=1000, n_users=120)
    with pytest.raises(RcbError, match=r"200 levels of 500 worlds need some \d+ GB, and this machine has 4"):
        sizes.check_plan_size(wide, n_per_arm=20, n_worlds=500, by_set=False, pooled=True)


def test_a_thousand_arms_are_refused_with_what_they_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = many_arms(2)
    monkeypatch.setattr(Market, "n_arms", 1000)
    monkeypatch.setattr(sizes, "memory", lambda: 24 * 10**9)
    with pytest.raises(
        RcbError, match=r"1000 levels of 500 worlds need some \d+ GB.*take some \d+ minutes of one core"
    ):
        sizes.check_plan_size(wide, n_per_arm=5, n_worlds=500, by_set=False)
    monkeypatch.setattr(sizes, "memory", lambda: 10**15)
    with pytest.raises(RcbError, match=r"hours of one core \(and .* GB\), and 48 hours are the most"):
        sizes.check_plan_size(wide, n_per_arm=5, n_worlds=50_000, by_set=False)
    with pytest.raises(RcbError, match=r"hours of one core \(and .* GB\), and 48 hours are the most"):
        sizes.check_audit_size(wide, n_worlds=10_000, n_users=120)


@pytest.mark.usefixtures("no_work")
def test_ten_thousand_arms_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them are alike is found in one look at each, not at each pair."""
    monkeypatch.setattr(sizes, "memory", lambda: 24 * 10**9)
    with pytest.raises(RcbError, match=r"10000 levels of 500 worlds need some .* GB"):
        rcb.calibrate(many_arms(10_000), n_per_arm=5, n_worlds=500)


@pytest.mark.usefixtures("no_work")
def test_checks_whose_data_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of squares of 500 worlds are held together: 100 arms of 200 features, 16 GB and their factors."""
    prior = Prior.gaussian([[0.0] * 200] * 100, 0.2)
    wide = Market(prior=prior, covariates=rcb.Sphere(200), noise=rcb.GaussianNoise(1.0))
    monkeypatch.setattr(sizes, "memory", lambda: 24 * 10**9)
    with pytest.raises(RcbError, match=r"100 arms of 200 features in 500 worlds at a time need some 48 GB"):
        rcb.check_assumptions(wide, n_per_arm=20)
    sizes.check_stage_size(wide, n_per_arm=20, n_worlds=200)


@pytest.mark.parametrize(("n_arms", "seconds", "gigabytes"), [(50, 45.0, 1.0), (200, 225.0, 2.8)])
def test_estimates_of_plans_are_what_was_measured(
    n_arms: int, seconds: float, gigabytes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU seconds and the peak of memory, 500 worlds, the sphere of five features; to a factor of two."""
    found = {}
    monkeypatch.setattr(sizes, "_check_memory", lambda n_bytes, **_: found.update(gigabytes=n_bytes / 1e9))
    monkeypatch.setattr(sizes, "_check_hours", lambda hours, **_: found.update(seconds=3600.0 * hours))
    sizes.check_plan_size(many_arms(n_arms), n_per_arm=20, n_worlds=500, by_set=False)
    assert 0.5 < found["seconds"] / seconds < 2.0
    assert 0.5 < found["gigabytes"] / gigabytes < 2.0


@pytest.mark.parametrize(("n_arms", "seconds"), [(60, 57.0), (100, 109.0), (200, 407.0)])
def test_estimates_of_audits_are_what_was_measured(
    n_arms: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU seconds of 200 worlds, all levels and three epochs, the sphere of five features; to a factor of two."""
    found = {}
    monkeypatch.setattr(sizes, "_check_hours", lambda hours, **_: found.update(seconds=3600.0 * hours))
    monkeypatch.setattr(sizes, "memory", lambda: 10**12)
    sizes.check_audit_size(many_arms(n_arms), n_worlds=200, n_users=100)
    assert 0.5 < found["seconds"] / seconds < 2.0


@pytest.mark.usefixtures("no_work")
def test_plans_by_level_are_refused_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "memory", lambda: 10**7)
    with pytest.raises(RcbError, match=r"12 levels of 500 worlds need some"):
        rcb.calibrate(many_arms(12), n_per_arm=5, n_worlds=500, knows="level")


def test_the_panel_is_smaller_only_where_arms_are_very_many() -> None:
    assert [sizes.panel_size(many_arms(k)) for k in (2, 64, 200)] == [2048, 2048, 655]
    assert sizes.panel_size(many_arms(2), most=256) == 256


def test_memory_is_known() -> None:
    assert sizes.memory() > 10**8


def test_counts_have_an_upper_end_with_its_reason() -> None:
    assert as_count(7, name="n", most=7) == 7
    with pytest.raises(RcbError, match=r"n must be an integer of at most 7 \(no more fit\), got 8"):
        as_count(8, name="n", most=7, why="no more fit")
    with pytest.raises(RcbError, match=r"got about -10\^1000"):
        as_count(-(10**1000), name="n")


def test_numbers_whose_squares_overflow_are_none() -> None:
    assert is_number(1e100)
    assert not is_number(1e101)
    assert not is_number(10**400)
    assert not is_number(float("nan"))
