"""What the paper's algorithm is compared with: usual bandits, and its predecessors in incentivized exploration.

All are policies: ``simulate`` runs them and ``audit`` asks whether users would follow.
"""

from rcb_bayes.baselines.always import AlwaysArm
from rcb_bayes.baselines.epsilon_greedy import EpsilonGreedy
from rcb_bayes.baselines.explore_then_commit import ExploreThenCommit
from rcb_bayes.baselines.falcon import Falcon
from rcb_bayes.baselines.filtered_posterior import FilteredPosterior
from rcb_bayes.baselines.greedy import Greedy
from rcb_bayes.baselines.greedy_first import GreedyFirst
from rcb_bayes.baselines.hidden_exploration import HiddenExploration, estimate_hidden_rate, hidden_inverse_rate
from rcb_bayes.baselines.kremer import Kremer, kremer_thresholds
from rcb_bayes.baselines.lasso import LassoBandit
from rcb_bayes.baselines.linucb import LinUcb
from rcb_bayes.baselines.payments import Payments, bill
from rcb_bayes.baselines.repeated_hidden_exploration import (
    RepeatedHiddenExploration,
    estimate_repeated_rate,
    repeated_rate,
)
from rcb_bayes.baselines.reward_laws import ContinuousLaw, NormalLaw, SampledLaw
from rcb_bayes.baselines.thompson import LinThompson
from rcb_bayes.baselines.warm_thompson import WarmThompson, estimate_separations, warm_start_samples
from rcb_bayes.calling import at_the_door

__all__ = [
    "AlwaysArm",
    "ContinuousLaw",
    "EpsilonGreedy",
    "ExploreThenCommit",
    "Falcon",
    "FilteredPosterior",
    "Greedy",
    "GreedyFirst",
    "HiddenExploration",
    "Kremer",
    "LassoBandit",
    "LinThompson",
    "LinUcb",
    "NormalLaw",
    "Payments",
    "RepeatedHiddenExploration",
    "SampledLaw",
    "WarmThompson",
    "bill",
    "estimate_hidden_rate",
    "estimate_repeated_rate",
    "estimate_separations",
    "hidden_inverse_rate",
    "kremer_thresholds",
    "repeated_rate",
    "warm_start_samples",
]

at_the_door(globals(), __all__)
