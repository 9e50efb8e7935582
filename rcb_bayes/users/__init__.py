"""User populations x ~ P_X: who arrives, and how well the arrivals cover the feature space.

Every population samples users and knows its moments exactly: E[x], E[xx'], and

    phi0 = lambda_min(E[xx']),

the constant by which the paper divides to get from samples to estimation error (Assumption 2, Theorem 1). It is
a property of the covariates alone, never of the prior. phi0 = 0 means that some direction of the feature space is
never visited (a full set of dummies beside an intercept does it): a finding with the directions named, not an error.

A population with an intercept is ``Empirical`` with a column of ones, or ``Gaussian`` with mean 1 and variance 0 there.
"""

from rcb_bayes.calling import at_the_door
from rcb_bayes.users.empirical import Empirical
from rcb_bayes.users.moments import WeakDirections
from rcb_bayes.users.populations import Ball, Gaussian, Sphere, Uniform
from rcb_bayes.users.protocol import Covariates

__all__ = ["Ball", "Covariates", "Empirical", "Gaussian", "Sphere", "Uniform", "WeakDirections"]

at_the_door(globals(), __all__)
