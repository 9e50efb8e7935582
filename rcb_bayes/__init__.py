"""Incentivized exploration you can trust: beliefs as PyMC models, plans and audits by sampling.

Names are imported on first use: ``import rcb_bayes`` costs next to nothing, PyMC is loaded when a belief is built.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__

if TYPE_CHECKING:
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
    from rcb_bayes.baselines import AlwaysArm as AlwaysArm
    from rcb_bayes.baselines import EpsilonGreedy as EpsilonGreedy
    from rcb_bayes.baselines import ExploreThenCommit as ExploreThenCommit
    from rcb_bayes.baselines import Falcon as Falcon
    from rcb_bayes.baselines import Greedy as Greedy
    from rcb_bayes.baselines import HiddenExploration as HiddenExploration
    from rcb_bayes.baselines import Kremer as Kremer
    from rcb_bayes.baselines import LassoBandit as LassoBandit
    from rcb_bayes.baselines import LinThompson as LinThompson
    from rcb_bayes.baselines import LinUcb as LinUcb
    from rcb_bayes.baselines import RepeatedHiddenExploration as RepeatedHiddenExploration
    from rcb_bayes.baselines import WarmThompson as WarmThompson
    from rcb_bayes.belief import Prior as Prior
    from rcb_bayes.belief import gallery as gallery
    from rcb_bayes.belief import load_prior as load_prior
    from rcb_bayes.errors import GuardWarning as GuardWarning
    from rcb_bayes.errors import RcbError as RcbError
    from rcb_bayes.gaps.assumptions import Check as Check
    from rcb_bayes.gaps.assumptions import check_assumptions as check_assumptions
    from rcb_bayes.gaps.estimation import estimate_gaps as estimate_gaps
    from rcb_bayes.gaps.estimation import estimate_separation as estimate_separation
    from rcb_bayes.gaps.estimation import gap_curve as gap_curve
    from rcb_bayes.market import Market as Market
    from rcb_bayes.market.noise import BernoulliLogit as BernoulliLogit
    from rcb_bayes.market.noise import GaussianNoise as GaussianNoise
    from rcb_bayes.mechanism.exploiting import Exploiting as Exploiting
    from rcb_bayes.planning.calibration import guard_anew as guard_anew
    from rcb_bayes.planning.fixed import fixed_plan as fixed_plan
    from rcb_bayes.planning.plan import Plan as Plan
    from rcb_bayes.planning.regret import RegretBound as RegretBound
    from rcb_bayes.planning.regret import regret_bound as regret_bound
    from rcb_bayes.planning.theorem import theorem_plan as theorem_plan
    from rcb_bayes.planning.tradeoffs import tradeoff as tradeoff
    from rcb_bayes.plots import plot_compliance as plot_compliance
    from rcb_bayes.plots import plot_coverage as plot_coverage
    from rcb_bayes.plots import plot_frontier as plot_frontier
    from rcb_bayes.plots import plot_gain as plot_gain
    from rcb_bayes.plots import plot_gap_curve as plot_gap_curve
    from rcb_bayes.plots import plot_margin_matrix as plot_margin_matrix
    from rcb_bayes.plots import plot_margins as plot_margins
    from rcb_bayes.plots import plot_prior_posterior as plot_prior_posterior
    from rcb_bayes.plots import plot_propensities as plot_propensities
    from rcb_bayes.plots import plot_rates as plot_rates
    from rcb_bayes.plots import plot_regret as plot_regret
    from rcb_bayes.plots import plot_samples as plot_samples
    from rcb_bayes.plots import plot_tradeoff as plot_tradeoff
    from rcb_bayes.posterior import Rows as Rows
    from rcb_bayes.posterior import Statistics as Statistics
    from rcb_bayes.posterior import fit_posterior as fit_posterior
    from rcb_bayes.posterior import make_engine as make_engine
    from rcb_bayes.posterior import posterior_means as posterior_means
    from rcb_bayes.posterior import posterior_model as posterior_model
    from rcb_bayes.posterior import summary_means as summary_means
    from rcb_bayes.reporting import Report as Report
    from rcb_bayes.reporting import ReportSizes as ReportSizes
    from rcb_bayes.reporting import report as report
    from rcb_bayes.running.oracle import PosteriorOracle as PosteriorOracle
    from rcb_bayes.running.oracle import RidgeOracle as RidgeOracle
    from rcb_bayes.running.oracle import SklearnOracle as SklearnOracle
    from rcb_bayes.running.policies import Rcb as Rcb
    from rcb_bayes.running.recommender import Recommender as Recommender
    from rcb_bayes.running.simulation import simulate as simulate
    from rcb_bayes.studies.paper import Claim as Claim
    from rcb_bayes.studies.paper import Outcome as Outcome
    from rcb_bayes.studies.paper import Request as Request
    from rcb_bayes.studies.paper import reproduce as reproduce
    from rcb_bayes.studies.warfarin import WarfarinResult as WarfarinResult
    from rcb_bayes.studies.warfarin import load_warfarin as load_warfarin
    from rcb_bayes.studies.warfarin import run_warfarin as run_warfarin
    from rcb_bayes.studies.warfarin import synthetic_cohort as synthetic_cohort
    from rcb_bayes.users import Ball as Ball
    from rcb_bayes.users import Empirical as Empirical
    from rcb_bayes.users import Gaussian as Gaussian
    from rcb_bayes.users import Sphere as Sphere
    from rcb_bayes.users import Uniform as Uniform

if sys.version_info < (3, 12):  # noqa: UP036 (a checkout can be imported by any interpreter)
    raise ImportError(f"rcb_bayes needs Python 3.12 or newer, this is {sys.version.split()[0]}.")

_HOMES = {
    "AlwaysArm": "baselines",
    "Audit": "auditing",
    "LogCheck": "auditing",
    "MixedAudit": "auditing",
    "UserType": "auditing",
    "Ball": "users",
    "BernoulliLogit": "market.noise",
    "Check": "gaps.assumptions",
    "Claim": "studies.paper",
    "Empirical": "users",
    "EpsilonGreedy": "baselines",
    "Exploiting": "mechanism.exploiting",
    "ExploreThenCommit": "baselines",
    "Falcon": "baselines",
    "Gaussian": "users",
    "GaussianNoise": "market.noise",
    "Greedy": "baselines",
    "GuardWarning": "errors",
    "HiddenExploration": "baselines",
    "Kremer": "baselines",
    "LassoBandit": "baselines",
    "LinThompson": "baselines",
    "LinUcb": "baselines",
    "Market": "market",
    "Outcome": "studies.paper",
    "Plan": "planning.plan",
    "PosteriorOracle": "running.oracle",
    "Prior": "belief",
    "Rcb": "running.policies",
    "RcbError": "errors",
    "Recommender": "running.recommender",
    "RegretBound": "planning.regret",
    "RepeatedHiddenExploration": "baselines",
    "Report": "reporting",
    "ReportSizes": "reporting",
    "Request": "studies.paper",
    "RidgeOracle": "running.oracle",
    "Rows": "posterior",
    "SklearnOracle": "running.oracle",
    "Sphere": "users",
    "Statistics": "posterior",
    "Uniform": "users",
    "WarmThompson": "baselines",
    "WarfarinResult": "studies.warfarin",
    "audit": "auditing",
    "audit_log": "auditing",
    "audit_types": "auditing",
    "calibrate": "auditing.calibration",
    "check_assumptions": "gaps.assumptions",
    "check_log": "auditing",
    "compare_plans": "auditing.comparison",
    "estimate_gaps": "gaps.estimation",
    "estimate_separation": "gaps.estimation",
    "fit_posterior": "posterior",
    "fixed_plan": "planning.fixed",
    "gallery": "belief",
    "gap_curve": "gaps.estimation",
    "guard_anew": "planning.calibration",
    "load_prior": "belief",
    "load_warfarin": "studies.warfarin",
    "make_engine": "posterior",
    "plot_compliance": "plots",
    "plot_coverage": "plots",
    "plot_frontier": "plots",
    "plot_gain": "plots",
    "plot_gap_curve": "plots",
    "plot_margin_matrix": "plots",
    "plot_margins": "plots",
    "plot_prior_posterior": "plots",
    "plot_propensities": "plots",
    "plot_rates": "plots",
    "plot_regret": "plots",
    "plot_samples": "plots",
    "plot_tradeoff": "plots",
    "posterior_means": "posterior",
    "posterior_model": "posterior",
    "regret_bound": "planning.regret",
    "report": "reporting",
    "run_warfarin": "studies.warfarin",
    "reproduce": "studies.paper",
    "simulate": "running.simulation",
    "summary_means": "posterior",
    "synthetic_cohort": "studies.warfarin",
    "theorem_plan": "planning.theorem",
    "tradeoff": "planning.tradeoffs",
}

INSTALL = "In a checkout `make venv` installs what rcb_bayes needs: use .venv/bin/python and .venv/bin/rcb."

__all__ = ["__version__", *sorted(_HOMES)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        try:
            return getattr(import_module(f"rcb_bayes.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}. {INSTALL}", name=error.name) from None
    raise AttributeError(f"module 'rcb_bayes' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
