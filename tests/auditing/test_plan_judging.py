"""Audits in pieces: blocks of worlds, some users at a time, the bootstrap of a few cells; and nothing hangs on it."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.auditing import plan_judging
from rcb_bayes.auditing.judging import margins_under
from rcb_bayes.auditing.plan_judging import seen_plan
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.view import Asked
from rcb_bayes.mechanism import bands
from rcb_bayes.mechanism.bands import largest_of
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.mechanism.notions import NOTIONS

KNOWS = ["stage", "level", "phase", "mechanism"]


@cache
def setting(*, personalised: bool = True) -> tuple[rcb.Market, rcb.Plan]:
    prior = rcb.Prior.gaussian([[0.3, 0.1], [0.1, 0.1], [0.0, 0.0]], 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    sizes: dict[str, Any] = {"n_per_arm": 5, "n_worlds": 300, "audit_worlds": 300}
    if not personalised:
        return market, rcb.calibrate(market, epsilon=0.2, notion="definition", personalised=False, **sizes)
    return market, rcb.calibrate(market, epsilon=0.1, **sizes)


def asked(plan: rcb.Plan, *, knows: str = "stage", n_worlds: int = 260) -> Asked:
    notion = NOTIONS[plan.notion]
    own = {"epsilon": plan.epsilon, "n_worlds": n_worlds, "n_users": 12, "level": 0.05, "seed": 3}
    return Asked(notion=notion, knows=as_knowledge(knows), **own)


def assert_same_margins(one: xr.Dataset, other: xr.Dataset) -> None:
    """Figures to rounding; bands to that of single precision, whose last digits hang on the processor."""
    bands_of = ["lower", "upper"]
    xr.testing.assert_allclose(one.drop_vars(bands_of), other.drop_vars(bands_of), rtol=1e-9, atol=1e-12)
    width = np.nan_to_num(one["upper"].values - one["lower"].values, nan=0.0, posinf=0.0)
    for name in bands_of:
        np.testing.assert_array_equal(one[name].isnull(), other[name].isnull())
        apart = np.nan_to_num(np.abs(one[name].values - other[name].values), nan=0.0)
        assert (apart <= 1e-5 * width + 1e-12).all()


def test_a_band_a_little_wider_is_noticed() -> None:
    market, plan = setting()
    question = asked(plan)
    margins = margins_of(seen_plan(market, plan, question, horizon=60, options=Exploiting()), market, question)
    for one in margins.values():
        assert_same_margins(one, one)
        wider = one.assign(upper=one["upper"] + 1e-4 * (one["upper"] - one["lower"]))
        with pytest.raises(AssertionError):
            assert_same_margins(one, wider)


def margins_of(looked: Any, market: rcb.Market, question: Asked) -> "dict[str, xr.Dataset]":
    return margins_under(market, looked.views, question)


@pytest.mark.parametrize("knows", KNOWS)
def test_some_users_at_a_time_come_to_the_same(knows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    market, plan = setting()
    question = asked(plan, knows=knows)
    how: dict[str, Any] = {"horizon": 120, "options": Exploiting()}
    whole = seen_plan(market, plan, question, **how)
    monkeypatch.setattr(plan_judging, "_WHOLE", 0)
    monkeypatch.setattr(plan_judging, "_PIECE", 3 * 5 * 260)
    parts = seen_plan(market, plan, question, **how)
    assert (parts.n_posteriors, parts.n_not_vouched) == (whole.n_posteriors, whole.n_not_vouched)
    one, other = (margins_of(looked, market, question) for looked in (whole, parts))
    for name, margins in one.items():
        assert_same_margins(margins, other[name])


def test_one_rate_for_all_and_averages_over_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    market, plan = setting(personalised=False)
    question = asked(plan)
    whole = seen_plan(market, plan, question, horizon=60, options=Exploiting())
    monkeypatch.setattr(plan_judging, "_WHOLE", 0)
    monkeypatch.setattr(plan_judging, "_PIECE", 3 * 5 * 260)
    parts = seen_plan(market, plan, question, horizon=60, options=Exploiting())
    one, other = (margins_of(looked, market, question) for looked in (whole, parts))
    for name, margins in one.items():
        assert_same_margins(margins, other[name])


@pytest.mark.parametrize("knows", KNOWS)
def test_views_as_they_are_give_the_same_margins(knows: str) -> None:
    market, plan = setting()
    question = asked(plan, knows=knows)
    how: dict[str, Any] = {"horizon": 120, "options": Exploiting()}
    one = margins_of(plan_views(market, plan, question, **how), market, question)
    other = margins_of(seen_plan(market, plan, question, **how), market, question)
    for name, margins in one.items():
        assert_same_margins(margins, other[name])


def test_scenes_that_do_not_fit_together_are_drawn_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    market, plan = setting()
    question = asked(plan)
    how: dict[str, Any] = {"horizon": 120, "options": Exploiting()}
    together = margins_of(seen_plan(market, plan, question, **how), market, question)
    monkeypatch.setattr(plan_judging, "_KEPT_VALUES", 1)
    apart = margins_of(seen_plan(market, plan, question, **how), market, question)
    for name, margins in together.items():
        xr.testing.assert_identical(margins, apart[name])


def test_a_block_does_not_hang_on_those_beside_it() -> None:
    """Blocks have streams of their own: the first one's worlds are the same, however many are drawn after it."""
    from rcb_bayes.auditing.drawing import draw
    from rcb_bayes.auditing.plan_run import begin_run
    from rcb_bayes.auditing.plan_views import scenes

    market, plan = setting()
    run = begin_run(market, plan, asked(plan, n_worlds=900), horizon=120, options=Exploiting())
    for source in {source for scene in scenes(run) for source in scene.sources}:
        blocks = [draw(run, (source, block)) for block in (2, 0, 1)]
        for name, part in draw(run, (source, 0)).items():
            np.testing.assert_array_equal(part, blocks[1][name])
        assert not np.array_equal(blocks[1]["users"][:100], blocks[2]["users"][:100])


def test_users_with_a_prior_that_loosens_and_a_platform_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    market, plan = setting()
    for options in (Exploiting(inflation="log", guard=False), Exploiting(feed="last", guard=False)):
        for knows in ("stage", "mechanism") if options.feed == "last" else ("stage",):
            question = asked(plan, knows=knows)
            whole = margins_of(seen_plan(market, plan, question, horizon=120, options=options), market, question)
            with monkeypatch.context() as patched:
                patched.setattr(plan_judging, "_WHOLE", 0)
                patched.setattr(plan_judging, "_PIECE", 3 * 5 * 260)
                parts = margins_of(seen_plan(market, plan, question, horizon=120, options=options), market, question)
            for name, margins in whole.items():
                assert_same_margins(margins, parts[name])


# --- the bootstrap of very many worlds -------------------------------------------------------------------------------


def _correlated(rng: np.random.Generator, n_worlds: int, n_cells: int = 60) -> np.ndarray:
    values = rng.standard_normal((1, n_worlds)) + rng.standard_normal((n_cells, n_worlds))
    return values - values.mean(axis=1, keepdims=True)


def _quantile(values: np.ndarray) -> float:
    found = largest_of(np.arange(len(values)), lambda places: values[places], n_worlds=values.shape[1])
    return float(np.quantile(found, 0.95))


def test_worlds_that_share_a_factor_tell_as_well_how_errors_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells with a common part of half their variance: max of .7 z + .7 z_c, whose quantile is known by quadrature."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    z = np.linspace(-8.0, 8.0, 4001)
    half, n_cells = np.sqrt(0.5), 60

    def below(c: float) -> float:
        return float(np.trapezoid(norm.pdf(z) * norm.cdf((c - half * z) / half) ** n_cells, z))

    found: Any = brentq(lambda c: below(c) - 0.95, 1.0, 4.0)
    truth = float(found)
    density = (below(truth + 0.01) - below(truth - 0.01)) / 0.02
    error = np.sqrt(0.05 * 0.95 / 1000) / density  # of the quantile of a thousand replicates
    values = half * _correlated(np.random.default_rng(5), 12_000, n_cells)
    for most, is_right in ((20_000, True), (1500, True), (4, False)):  # planted: a handful of groups of worlds
        monkeypatch.setattr(bands, "_MOST_FACTORS", most)
        assert bool(abs(_quantile(values) - truth) < 4 * error) is is_right


def test_few_cells_at_a_time_have_the_same_largest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    values = _correlated(np.random.default_rng(6), 500)
    whole = largest_of(np.arange(60), lambda places: values[places])
    some = largest_of(np.arange(60), lambda places: values[places], n_worlds=bands._MOST_DEVIATIONS // 7)
    np.testing.assert_allclose(whole, some, rtol=1e-5, atol=1e-6)  # of single precision


def test_an_audit_of_a_question_is_one_answer() -> None:
    """Same seed, same answer; another seed, another."""
    market, plan = setting()
    first, again = (rcb.audit(market, plan, horizon=60, n_worlds=120, n_users=10, seed=4) for _ in range(2))
    other = rcb.audit(market, plan, horizon=60, n_worlds=120, n_users=10, seed=5)
    xr.testing.assert_identical(first.margins, again.margins)
    assert not first.margins.identical(other.margins)
    assert replace(first).verdict == again.verdict
