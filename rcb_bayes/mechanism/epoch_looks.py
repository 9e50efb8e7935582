"""Exploitation as users meet it who cannot tell its epochs apart: every world in the epoch of a round drawn at random.

A user who comes at an unknown round meets an epoch in proportion to its length. Epochs of the same world are no
independent looks at it, so that each world is looked at once.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.epoch_worlds import EpochWorlds, GuardAt
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpochLook:
    """Worlds that are looked at in one epoch: their places among all, what is expected, and the spread."""

    worlds: np.ndarray
    outlook: Outlook
    gamma: FloatArray
    epoch: int


def looks_at_random_rounds(
    epochs: EpochWorlds, *, horizon: float, guard_at: GuardAt, rng: np.random.Generator
) -> list[EpochLook]:
    """Every world in the epoch that a round drawn at random from its exploitation, up to the horizon, falls into.

    Epochs are run on the way, each with its guard.
    """
    began = epochs.state.began
    n = len(began)
    # One round of each nth of exploitation: fewer ties with chance than rounds drawn one by one.
    moment = began + (horizon - began) * rng.permutation((np.arange(n) + rng.random(n)) / n)
    looks: list[EpochLook] = []
    while True:
        here = np.flatnonzero((moment >= epochs.state.begins) & (moment < epochs.state.ends))
        if len(here):
            outlook, gamma = epochs.outlook.in_worlds(here), epochs.gamma[here]
            looks.append(EpochLook(worlds=here, outlook=outlook, gamma=gamma, epoch=epochs.epoch))
        if (moment < epochs.state.ends).all():
            return looks
        epochs.advance_to(epochs.epoch + 1, guard_at)
