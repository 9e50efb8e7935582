"""Off-policy values: what a policy would have come to, from a log of another."""

from rcb_bayes.evaluation.run import ESTIMATORS, evaluate

__all__ = ["ESTIMATORS", "evaluate"]
