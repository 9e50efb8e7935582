"""Named random streams: one for each purpose, so that no answer depends on what else is computed.

A stream is the seed of a call, the purpose, and whatever else tells it from its like (a stage, a level, an arm). The
numbers are part of what a seed means: a purpose that is added takes a number that nobody has.
"""

from enum import IntEnum, unique

import numpy as np


@unique
class Stream(IntEnum):
    """What random numbers are drawn for."""

    PANEL = 0
    PATHS = 1
    CRITICAL_USERS = 2
    USERS_OF_WORLDS = 3
    PATHS_OF_WORLDS = 4
    STAGE_WORLDS = 5
    ROUNDS = 6
    BEST_REWARDS = 7
    MANY_USERS = 8
    COVERAGE = 9
    PLANNED_EPOCHS = 10
    AFTER_COLD_START = 11
    AUDITED_EPOCHS = 12
    JUDGED_USERS = 13
    WORST_USERS = 14
    TUNING_USERS = 15
    LEAST_RATE = 16
    USER_ERROR = 17
    AUDITED_ROUNDS = 18
    OFF_BEST_USERS = 19
    AUDIT = 20
    POLICY_PANEL = 21
    POLICY_USERS = 22
    TRIALS = 23
    MOMENTS = 24
    PROGRAMME_USERS = 25
    NAMES_AFTER_COLD_START = 26
    FAITHFUL_RUNS = 31
    USER_TYPES = 32
    RADIUS = 33
    RADIUS_USERS = 34
    FRESH_AUDIT = 40
    DISTILLED = 50
    KEPT_USERS = 51
    GREEDY_USERS = 60
    GREEDY_WORLDS = 61
    GREEDY_REACH = 62
    FAVOURITES = 63
    EXPLORED_ARMS = 70


def sequence(seed: int, purpose: Stream, *key: int) -> np.random.SeedSequence:
    """The seed of a stream."""
    return np.random.SeedSequence([seed, purpose, *key])


def generator(seed: int, purpose: Stream, *key: int) -> np.random.Generator:
    """A stream."""
    return np.random.default_rng(sequence(seed, purpose, *key))


def derived_seed(seed: int, purpose: Stream) -> int:
    """A seed for a call within a call."""
    return int(sequence(seed, purpose).generate_state(1)[0])
