"""Users who do not follow, or not always: what they do, what comes of it, and what can be learnt all the same."""

from rcb_bayes.behaviour.instrument import instrument
from rcb_bayes.behaviour.live import LiveUsers
from rcb_bayes.behaviour.mix import Mix, as_behaviour
from rcb_bayes.behaviour.participation import participation
from rcb_bayes.behaviour.plain import Contrary, Obedient, Random, Stubborn
from rcb_bayes.behaviour.predicted import predicted_following
from rcb_bayes.behaviour.rational import Rational
from rcb_bayes.behaviour.refusal import Refusal
from rcb_bayes.behaviour.trust import Trust
from rcb_bayes.calling import at_the_door

__all__ = [
    "Contrary",
    "LiveUsers",
    "Mix",
    "Obedient",
    "Random",
    "Rational",
    "Refusal",
    "Stubborn",
    "Trust",
    "as_behaviour",
    "instrument",
    "participation",
    "predicted_following",
]

at_the_door(globals(), __all__)
