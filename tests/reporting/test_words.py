"""The answer in words, for each verdict."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.reporting.words import answer_of, radius_words
from tests.planning.revising import revised
from tests.reporting.reports import small_report


def test_a_plan_that_passes_is_a_yes() -> None:
    found = small_report()
    assert found.audit is not None
    answer = answer_of(found.plan, replace(found.audit, verdict="pass"), not_audited="")
    share = f"{100 * found.plan.share_explored:.1f} %"
    assert (answer.verdict, answer.headline) == ("pass", f"Yes, with {share} of users.")
    assert "200 fresh worlds" in answer.sentences[0]
    assert "10 samples of each of 3 arms" in answer.sentences[1]
    uniform = answer_of(revised(found.plan, personalised=False), replace(found.audit, verdict="pass"), not_audited="")
    assert uniform.headline == "Yes, with all users, at one rate."


def test_a_plan_that_fails_says_where() -> None:
    found = small_report()
    assert found.audit is not None
    margins = found.audit.margins.copy(deep=True)
    margins["verdict"][-1, 0, 1, 0] = 2
    for name, value in (("estimate", -0.7), ("lower", -0.8), ("upper", -0.6)):
        margins[name][-1, 0, 1, 0] = value
    audit = replace(found.audit, verdict="fail", by_notion={found.audit.notion: margins})
    answer = answer_of(found.plan, audit, not_audited="")
    stage = margins["stage"].values[-1]
    assert answer.headline == "Not as planned: some users would not follow."
    assert answer.sentences[0].startswith(f"Worst at the stage '{stage}': b & \"c\" in the place of <script>")
    assert "-0.7 (bounds -0.8 to -0.6)" in answer.sentences[0]
    perhaps = answer_of(found.plan, replace(found.audit, verdict="inconclusive"), not_audited="")
    assert (perhaps.verdict, perhaps.headline) == ("inconclusive", "Perhaps: the simulations cannot tell.")


def test_no_plan_is_a_no_and_no_audit_is_not_a_yes() -> None:
    plan = small_report().plan
    no = answer_of(revised(plan, feasible=False, reason="Nobody can."), None, not_audited="x")
    assert (no.verdict, no.headline, no.sentences) == ("fail", "No, not at epsilon = 0.05.", ("Nobody can.",))
    sweep = (revised(plan, epsilon=0.1, feasible=False), revised(plan, epsilon=0.3), revised(plan, epsilon=0.2))
    later = answer_of(revised(plan, feasible=False, reason="Nobody can."), None, not_audited="x", sweep=sweep)
    assert later.sentences[1].startswith("At epsilon = 0.2 there is a plan, with a cold start of ")
    assert answer_of(plan, None, not_audited="x", sweep=sweep) == answer_of(plan, None, not_audited="x")
    unknown = answer_of(plan, None, not_audited="For a reason.")
    assert unknown.verdict == "inconclusive"
    assert unknown.sentences[0] == "For a reason."


def ended_after(lengths: list[int]) -> xr.Dataset:
    return xr.Dataset({"cold_start_length": ("world", np.array(lengths))})


@pytest.mark.parametrize(
    ("runs", "horizon", "verdict", "headline"),
    [
        (None, 10_000, "pass", "Yes, with "),
        (None, 20, "fail", "Not within 20 rounds: the cold start takes longer."),
        (ended_after([-1] * 40), 10_000, "fail", "Not within 10,000 rounds: the cold start takes longer."),
        (ended_after([5] * 40), 20, "pass", "Yes, with "),
        (ended_after([5]), 10_000, "pass", "Yes, with "),  # one run tells nothing: by the plan's own figure
        (ended_after([5] * 38 + [-1] * 2), 20, "pass", "Yes, with "),
        (ended_after([5, -1] * 20), None, "inconclusive", "Not within "),
    ],
)
def test_only_a_cold_start_that_ends_is_a_yes(
    runs: xr.Dataset | None, horizon: int | None, verdict: str, headline: str
) -> None:
    found = small_report()
    assert found.audit is not None
    told = horizon or round(found.plan.expected_cold_start)
    answer = answer_of(
        found.plan, replace(found.audit, verdict="pass"), not_audited="", horizon=told, runs=runs, users=None
    )
    assert answer.verdict == verdict
    assert answer.headline.startswith(headline)
    some_late = runs is not None and bool((runs["cold_start_length"] < 0).any())
    assert any("of runs" in sentence for sentence in answer.sentences) is some_late


def test_worlds_that_do_not_tell_are_no_no() -> None:
    plan = revised(small_report().plan, feasible=False, reason="300 worlds do not tell.", verdict="inconclusive")
    answer = answer_of(plan, None, not_audited="")
    assert (answer.verdict, answer.headline) == ("inconclusive", "Not known at epsilon = 0.05: 100 worlds do not tell.")
    page = replace(small_report(), plan=plan, runs=None, audit=None).to_html()
    assert "No design was found" not in page
    assert "Whether there is a design that users would follow is not known: 300 worlds" in page


@pytest.mark.parametrize(
    ("verdicts", "fails", "words"),
    [
        (["pass", "pass", "inconclusive", "pass"], 0.02, "if users expect up to 0.01 more of old; by the estimates it"),
        (
            ["pass", "inconclusive", "fail", "fail"],
            0.015,
            "only as it is written; by the estimates it fails from 0.0150 ±",
        ),
        (["inconclusive", "fail", "fail", "fail"], np.nan, "not even as it is written."),
        (["pass"] * 4, np.inf, "if users expect up to 0.04 more of old."),
    ],
)
def test_the_largest_amount_that_passes_is_told_with_where_it_fails(
    verdicts: list[str], fails: float, words: str
) -> None:
    radius = xr.Dataset(
        {"verdict": (("direction", "amount"), [verdicts])}
        | {name: ("direction", [value]) for name, value in (("fails_above", fails), ("fails_above_mcse", 0.003))},
        coords={"direction": ["shift:old"], "amount": [0.0, 0.01, 0.02, 0.04]},
        attrs={"n_worlds": 400},
    )
    assert radius_words(radius).startswith(f"In audits of 400 worlds it passes {words}")


def test_what_mends_a_failure_is_where_it_fails() -> None:
    found = small_report()
    assert found.audit is not None
    audit = replace(found.audit, verdict="fail")
    in_cold_start = answer_of(found.plan, audit, not_audited="")
    assert "guard" not in in_cold_start.sentences[1]
    fixed = revised(found.plan, kind="fixed", personalised=False)
    assert "sampled rates" in answer_of(fixed, audit, not_audited="").sentences[1]
    assert "One rate was given for all users: " in replace(found, plan=fixed).to_html()


def test_averages_over_users_are_told_as_such() -> None:
    found = small_report(notion="definition", personalised=False)
    if found.audit is None:
        raise AssertionError(found.not_audited)
    answer = answer_of(found.plan, replace(found.audit, verdict="pass"), not_audited="")
    assert "users who know their recommendation, but not their features, lose at most" in answer.sentences[0]
    fails = answer_of(found.plan, replace(found.audit, verdict="fail"), not_audited="")
    assert "leaves users, on average, at" in fails.sentences[0]
    assert "if each knew her own features" in fails.sentences[1]
    page = found.to_html()
    assert "an average over 10 users at random" in page
    assert "users of the panel" not in page
