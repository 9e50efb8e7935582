"""The answer in words, for each verdict."""

from dataclasses import replace

from rcb_bayes.reporting.words import answer_of
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
