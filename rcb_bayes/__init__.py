"""Incentivized exploration you can trust: beliefs as PyMC models, plans and audits by sampling.

Names are imported on first use: ``import rcb_bayes`` costs next to nothing, PyMC is loaded when a belief is built.

What most people need is here. The rest has rooms of its own: populations in ``users``, what RCB is compared with in
``baselines``, users who do not follow in ``behaviour``, figures in ``plots``, posteriors in ``posterior``, the paper's
experiments and warfarin in ``studies``, exceptions and warnings in ``errors``.

To begin with::

    import numpy as np
    import rcb_bayes as rcb

    belief = rcb.Prior.gaussian([[0.2], [0.0]], 0.2, arms=["usual", "new"])  # means, variance
    users = rcb.Empirical(np.ones((1, 1)))
    market = rcb.Market(prior=belief, covariates=users, noise=rcb.GaussianNoise(0.3))
    print(rcb.check_need(market, seed=1))
    plan = rcb.calibrate(market, epsilon=0.05, n_per_arm=10, seed=1)
    print(plan.summary())
    print(rcb.audit(market, plan, seed=2).summary())
    rcb.report(market, plan, seed=1).save("report.html")
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__

if TYPE_CHECKING:
    from rcb_bayes import baselines as baselines
    from rcb_bayes import behaviour as behaviour
    from rcb_bayes import errors as errors
    from rcb_bayes import plots as plots
    from rcb_bayes import posterior as posterior
    from rcb_bayes import studies as studies
    from rcb_bayes import users as users
    from rcb_bayes.auditing import Audit as Audit
    from rcb_bayes.auditing import LogCheck as LogCheck
    from rcb_bayes.auditing import MixedAudit as MixedAudit
    from rcb_bayes.auditing import UserType as UserType
    from rcb_bayes.auditing import audit as audit
    from rcb_bayes.auditing import audit_log as audit_log
    from rcb_bayes.auditing import audit_types as audit_types
    from rcb_bayes.auditing import check_log as check_log
    from rcb_bayes.auditing.calibration import calibrate as calibrate
    from rcb_bayes.auditing.comparison import compare_plans as compare_plans
    from rcb_bayes.auditing.oracle_margins import oracle_margins as oracle_margins
    from rcb_bayes.auditing.varying import load_sensitivity as load_sensitivity
    from rcb_bayes.auditing.varying import sensitivity as sensitivity
    from rcb_bayes.belief import Prior as Prior
    from rcb_bayes.belief import gallery as gallery
    from rcb_bayes.belief import load_prior as load_prior
    from rcb_bayes.errors import RcbError as RcbError
    from rcb_bayes.evaluation import evaluate as evaluate
    from rcb_bayes.gaps.assumptions import Check as Check
    from rcb_bayes.gaps.assumptions import Checks as Checks
    from rcb_bayes.gaps.assumptions import check_assumptions as check_assumptions
    from rcb_bayes.gaps.estimation import estimate_gaps as estimate_gaps
    from rcb_bayes.gaps.estimation import gap_curve as gap_curve
    from rcb_bayes.market import Market as Market
    from rcb_bayes.market.noise import BernoulliLogit as BernoulliLogit
    from rcb_bayes.market.noise import GaussianNoise as GaussianNoise
    from rcb_bayes.mechanism.exploiting import Exploiting as Exploiting
    from rcb_bayes.planning.calibration import guard_anew as guard_anew
    from rcb_bayes.planning.exploring import Exploring as Exploring
    from rcb_bayes.planning.fixed import fixed_plan as fixed_plan
    from rcb_bayes.planning.knowledge_price import price_of_knowledge as price_of_knowledge
    from rcb_bayes.planning.plan import Plan as Plan
    from rcb_bayes.planning.regret import RegretBound as RegretBound
    from rcb_bayes.planning.regret import regret_bound as regret_bound
    from rcb_bayes.planning.rule import Rule as Rule
    from rcb_bayes.planning.theorem import theorem_plan as theorem_plan
    from rcb_bayes.planning.tradeoffs import tradeoff as tradeoff
    from rcb_bayes.posterior import Engine as Engine
    from rcb_bayes.posterior import posterior_model as posterior_model
    from rcb_bayes.reporting import Report as Report
    from rcb_bayes.reporting import ReportSizes as ReportSizes
    from rcb_bayes.reporting import report as report
    from rcb_bayes.running.heeding import Heeding as Heeding
    from rcb_bayes.running.intervals import Bootstrapped as Bootstrapped
    from rcb_bayes.running.intervals import Conformal as Conformal
    from rcb_bayes.running.need import check_need as check_need
    from rcb_bayes.running.oracle import Oracle as Oracle
    from rcb_bayes.running.oracle import PosteriorOracle as PosteriorOracle
    from rcb_bayes.running.oracle import RidgeOracle as RidgeOracle
    from rcb_bayes.running.policies import as_policy as as_policy
    from rcb_bayes.running.protocol import Policy as Policy
    from rcb_bayes.running.recommender import Recommender as Recommender
    from rcb_bayes.running.simulation import simulate as simulate
    from rcb_bayes.running.sklearn_oracle import SklearnOracle as SklearnOracle
    from rcb_bayes.users import Ball as Ball
    from rcb_bayes.users import Covariates as Covariates
    from rcb_bayes.users import Empirical as Empirical
    from rcb_bayes.users import Gaussian as Gaussian
    from rcb_bayes.users import Sphere as Sphere
    from rcb_bayes.users import Uniform as Uniform
    from rcb_bayes.validation import validate as validate

if sys.version_info < (3, 12):  # noqa: UP036 (a checkout can be imported by any interpreter)
    raise ImportError(f"rcb_bayes needs Python 3.12 or newer, this is {sys.version.split()[0]}.")

_ROOMS = ("baselines", "behaviour", "errors", "plots", "posterior", "studies", "users")
_NAMES = {
    "auditing": "Audit LogCheck MixedAudit UserType audit audit_log audit_types check_log",
    "auditing.calibration": "calibrate",
    "auditing.comparison": "compare_plans",
    "auditing.varying": "load_sensitivity sensitivity",
    "auditing.oracle_margins": "oracle_margins",
    "belief": "Prior gallery load_prior",
    "errors": "RcbError",
    "evaluation": "evaluate",
    "gaps.assumptions": "Check Checks check_assumptions",
    "gaps.estimation": "estimate_gaps gap_curve",
    "market": "Market",
    "market.noise": "BernoulliLogit GaussianNoise",
    "mechanism.exploiting": "Exploiting",
    "planning.calibration": "guard_anew",
    "planning.exploring": "Exploring",
    "planning.fixed": "fixed_plan",
    "planning.knowledge_price": "price_of_knowledge",
    "planning.plan": "Plan",
    "planning.regret": "RegretBound regret_bound",
    "planning.rule": "Rule",
    "planning.theorem": "theorem_plan",
    "planning.tradeoffs": "tradeoff",
    "posterior": "Engine posterior_model",
    "reporting": "Report ReportSizes report",
    "running.heeding": "Heeding",
    "running.intervals": "Bootstrapped Conformal",
    "running.need": "check_need",
    "running.oracle": "Oracle PosteriorOracle RidgeOracle",
    "running.policies": "as_policy",
    "running.protocol": "Policy",
    "running.recommender": "Recommender",
    "running.simulation": "simulate",
    "running.sklearn_oracle": "SklearnOracle",
    "users": "Ball Covariates Empirical Gaussian Sphere Uniform",
    "validation": "validate",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

INSTALL = "In a checkout `make venv` installs what rcb_bayes needs: use .venv/bin/python and .venv/bin/rcb."

__all__ = ["__version__", *sorted(_HOMES)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        if name in _ROOMS:
            return import_module(f"rcb_bayes.{name}")
        if name in _HOMES:
            home = import_module(f"rcb_bayes.{_HOMES[name]}")
            import_module("rcb_bayes.calling").at_the_door(vars(home), [name])
            return getattr(home, name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}. {INSTALL}", name=error.name) from None
    raise AttributeError(f"module 'rcb_bayes' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
