"""Results in notebooks: what they say, escaped, with the verdict."""

import rcb_bayes as rcb
from rcb_bayes.telling.html import as_html


def test_text_is_escaped_and_the_verdict_is_there():
    shown = as_html("Plan", "<b>q & L</b>", verdict="feasible")
    assert "&lt;b&gt;q &amp; L&lt;/b&gt;" in shown
    assert ">feasible</span>" in shown
    assert "<span" not in as_html("Market", "users")


def test_plans_markets_checks_and_audits_have_one():
    prior = rcb.Prior.gaussian([[0.3], [0.1]], 0.2, arms=["<old>", "new"])
    market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.fixed_plan(market, n_per_arm=4)
    audit = rcb.audit(market, plan, horizon=6, n_worlds=50, n_users=1)
    checks = rcb.check_assumptions(market, n_per_arm=4, n_worlds=200)
    for result, word in ((market, "Market"), (plan, "feasible"), (audit, audit.verdict), (checks, checks.verdict)):
        shown = result._repr_html_()
        assert word in shown
        assert "<old>" not in shown
