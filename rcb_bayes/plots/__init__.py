"""One function per figure: takes a result, returns Matplotlib axes."""

from rcb_bayes.calling import at_the_door
from rcb_bayes.plots.audits import plot_compliance, plot_counts, plot_margin_matrix, plot_margins, plot_shares
from rcb_bayes.plots.beliefs import plot_prior_posterior
from rcb_bayes.plots.gaps import plot_checks, plot_frontier, plot_gap_curve
from rcb_bayes.plots.knowledge import plot_knowledge
from rcb_bayes.plots.plans import plot_coverage, plot_regret_bound, plot_tradeoff
from rcb_bayes.plots.rates import plot_rates
from rcb_bayes.plots.rules import plot_kept
from rcb_bayes.plots.runs import plot_gain, plot_propensities, plot_regret, plot_samples
from rcb_bayes.plots.sensitivity import plot_sensitivity, plot_tornado
from rcb_bayes.plots.style import PALETTE
from rcb_bayes.plots.values import plot_values

__all__ = [
    "PALETTE",
    "plot_checks",
    "plot_compliance",
    "plot_counts",
    "plot_coverage",
    "plot_frontier",
    "plot_gain",
    "plot_gap_curve",
    "plot_kept",
    "plot_knowledge",
    "plot_margin_matrix",
    "plot_margins",
    "plot_prior_posterior",
    "plot_propensities",
    "plot_rates",
    "plot_regret",
    "plot_regret_bound",
    "plot_samples",
    "plot_sensitivity",
    "plot_shares",
    "plot_tornado",
    "plot_tradeoff",
    "plot_values",
]

at_the_door(globals(), __all__)
