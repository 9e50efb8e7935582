"""Small reports to look at, made once."""

from functools import cache
from typing import Any

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.reporting import Report, ReportSizes, report
from rcb_bayes.users import Sphere

# Labels as a belief file might have them.
ARMS = ("<script>alert(1)</script>", 'b & "c"', "</script><img src=x onerror=alert(2)>")
FEATURES = ("<b>age</b>", "dose")
SIZES = ReportSizes(
    check_worlds=100,
    plan_worlds=100,
    audit_worlds=200,
    audit_users=10,
    run_worlds=3,
    sweep_worlds=60,
    knowledge_worlds=50,
    radius_worlds=50,
    map_users=40,
    epsilons=(0.0, 0.05, 0.2),
)


def market_of(arms: tuple[str, ...] = ARMS) -> Market:
    prior = Prior.gaussian([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 0.02, arms=arms, features=FEATURES)
    return Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.05))


@cache
def small_report(**more: Any) -> Report:
    settings: dict[str, Any] = {"n_per_arm": 10, "horizon": 200, "sizes": SIZES, "seed": 1}
    return report(market_of(), **settings | more)
