"""Posterior engines: the posterior mean of any PyMC belief, for thousands of data sets at a time."""

from rcb_bayes.calling import at_the_door
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.engines import ENGINES, Engine, make_engine, posterior_means
from rcb_bayes.posterior.observed import posterior_model
from rcb_bayes.posterior.results import DiagnosticWarning, PosteriorBatch
from rcb_bayes.posterior.tree import fit_posterior, summary_means

__all__ = [
    "ENGINES",
    "DiagnosticWarning",
    "Engine",
    "PosteriorBatch",
    "Rows",
    "Statistics",
    "fit_posterior",
    "make_engine",
    "posterior_means",
    "posterior_model",
    "summary_means",
]

at_the_door(globals(), __all__)
