"""The paper's experiments: its settings with three kinds of plans, its claims judged, other beliefs, other policies."""

from rcb_bayes.experiments.claims import Claim
from rcb_bayes.experiments.outcome import Outcome, Request
from rcb_bayes.experiments.registry import EXPERIMENTS, Experiment, find_experiments, reproduce

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Outcome", "Request", "find_experiments", "reproduce"]
