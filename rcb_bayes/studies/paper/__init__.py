"""The paper's experiments: its settings with several plans, its claims judged, other beliefs, other policies."""

from rcb_bayes.studies.paper.claims import Claim
from rcb_bayes.studies.paper.outcome import Outcome, Request
from rcb_bayes.studies.paper.registry import EXPERIMENTS, Experiment, find_experiments, reproduce

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Outcome", "Request", "find_experiments", "reproduce"]
