"""Recommendations that wait for their reward, and what becomes of them.

Rewards may come late and out of order. In the cold start an arm's samples are its first N counted recommendations, not
the first N rewards to come in, and its stage lasts until all of them are in: whatever the delays, S is what it would be
without them. Three things are left to the platform.

- A reward that never comes has to be given up, by ``give_up`` or after ``patience`` rounds; the next recommendation
  takes its place. The guarantee then needs that rewards are missing independently of their value, given the user and
  the arm; where it depends on the user, the plan's users are to be those who answer.
- An epoch of exploitation feeds what is in by its end. Without ``patience`` the guarantee needs lateness that does not
  depend on the reward. With it every reward is looked at so many rounds after its recommendation, no sooner and no
  later: if all come within that time, neither what is fed nor how long a stage lasts tells anything about rewards.
- The tally (``Recommender.unobserved``) has the share not observed, by stage and arm: look at it.
"""

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.running.logbook import Logbook
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.tickets import GIVEN_UP, OBSERVED, RECOMMENDED, TOO_LATE, Early, Pending, Tally, Tickets
from rcb_bayes.schema import BoolArray, FloatArray, as_finite_array, is_number, position_of


class AwaitedRewards:
    """Tickets of an algorithm's recommendations, from their issue until their reward is settled.

    Attributes
    ----------
    pending : tickets whose reward has not come
    early : rewards that came before they are looked at, by ticket
    given_up : stage and arm of recommendations whose reward was given up, by ticket
    looked : tickets before this one have had their ``patience``
    tally : how many recommendations were made, and what came of them
    """

    def __init__(self, rcb: Rcb, *, patience: int | None, log: Logbook | None) -> None:
        self._rcb = rcb
        self.patience, self.log = patience, log
        self.pending = Tickets()
        self.early: dict[int, Early] = {}
        self.given_up: dict[int, tuple[int, int]] = {}
        self.looked = 0
        self.tally = Tally(rcb.market.n_arms)

    def go_on_with(self, rcb: Rcb) -> None:
        """The same tickets, of an algorithm that may have more arms."""
        if self.log is not None and rcb.market.n_arms > self._rcb.market.n_arms:
            self.log.widen(rcb.market.arms)
        self.tally.widen(rcb.market.n_arms)
        self._rcb = rcb

    # --- tickets ---

    def issue(
        self, users: FloatArray, decisions: Decisions, *, people: FloatArray, available: BoolArray | None = None
    ) -> int:
        """Tickets for recommendations to users, features (n, d), whom people know by x (n, p); returns the first.

        ``available`` are the arms that these users could have, (K,); all of them unless given.
        """
        first = self._rcb.rounds
        self.pending.issue_many(first, users, decisions.arm, decisions.counted, decisions.stage)
        self.tally.note_many(RECOMMENDED, decisions.stage, decisions.arm)
        if self.log is not None:
            self.log.note_many(first, people, decisions, available=available)
        self._rcb.rounds += len(decisions)
        return first

    def issue_one(self, pending: Pending, chances: list[float], *, person: FloatArray) -> None:
        """The ticket of one recommendation to a user whom people know by x (p,), with the probabilities of all arms."""
        ticket = self._rcb.rounds
        self.pending.issue(ticket, pending)
        self.tally.note(RECOMMENDED, pending.stage, pending.arm)
        if self.log is not None:
            self.log.note(ticket, person, pending.arm, pending.stage, chances)
        self._rcb.rounds = ticket + 1

    # --- rewards ---

    def observe(self, reward: float, *, ticket: int, taken: str | None) -> None:
        """A reward comes, that of the arm taken, the one recommended unless given.

        Raises
        ------
        DataError
            What is no reward, no ticket that is out, or no arm; nothing has changed then.
        """
        pending = self._found(ticket)
        value = self._as_reward(reward)
        if pending is None:  # given up: noted, and not used
            self.tally.note(TOO_LATE, *self.given_up.pop(int(ticket)))
            return
        arm = pending.arm if taken is None else position_of(taken, self._rcb.market.arms, error=DataError)
        self.pending.hand_in(ticket)
        self.tally.note(OBSERVED, pending.stage, pending.arm)
        early = Early(pending, arm, value)
        if self.patience is None:
            self._take_in(int(ticket), early)
        else:
            self.early[int(ticket)] = early

    def observe_many(self, rewards: ArrayLike, *, tickets: ArrayLike) -> None:
        """Rewards of many recommendations; all are checked before any is taken in."""
        values = as_finite_array(rewards, name="rewards", ndim=1)
        numbers = np.asarray(tickets)
        if numbers.shape != values.shape:
            raise DataError(f"Expected a ticket for each of {len(values)} rewards, got shape {numbers.shape}.")
        if len(np.unique(numbers)) != len(numbers):
            raise DataError("A ticket comes twice among these. Hand in each reward once.")
        self._check(numbers)
        if not self._rcb.market.noise.is_gaussian:
            for value in values:
                self._as_reward(float(value))
        # In a cold start any of them may end a stage.
        if self._rcb.exploitation is None or self.patience is not None or self.given_up:
            for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
                self.observe(value, ticket=number, taken=None)
            return
        x, arm, counted, stage = self.pending.hand_in_many(numbers)
        self.tally.note_many(OBSERVED, stage, arm)
        if self.log is not None:
            settled = zip(numbers.tolist(), values.tolist(), arm.tolist(), counted.tolist(), strict=True)
            for number, value, taken, kept in settled:
                self._settled(number, value, taken, counted=kept)
        self._rcb.absorb_many(x, arm, counted, values)

    def give_up(self, ticket: int) -> None:
        """A reward that will not come: in the cold start the next recommendation takes its place.

        Raises
        ------
        DataError
            A ticket that was not issued, or whose reward has come already or was given up.
        """
        pending = self.pending.get(ticket)
        if pending is None:
            raise DataError(self._unknown(ticket))
        self.pending.hand_in(ticket)
        self.given_up[int(ticket)] = (pending.stage, pending.arm)
        self.tally.note(GIVEN_UP, pending.stage, pending.arm)
        self._settled(int(ticket), np.nan, pending.arm, counted=False)
        if pending.counted and pending.in_cold_start:
            self._rcb.cold.release(pending.arm)

    def look(self) -> None:
        """Take in, or give up, the rewards that have had their rounds, where there is a number of them."""
        if self.patience is None:
            return
        while self.looked < self._rcb.rounds - self.patience:
            early = self.early.pop(self.looked, None)
            if early is not None:
                self._take_in(self.looked, early)
            elif self.pending.get(self.looked) is not None:
                self.give_up(self.looked)
            self.looked += 1

    def _take_in(self, ticket: int, early: Early) -> None:
        """A reward, at the time that it is looked at."""
        pending, arm, reward = early
        is_own = arm == pending.arm or not pending.in_cold_start
        self._settled(ticket, reward, arm, counted=pending.counted and is_own)
        if not pending.counted:
            return
        if is_own:
            self._rcb.absorb_one(pending.x, arm, reward)
        else:
            self._rcb.cold.release(pending.arm)

    def _settled(self, ticket: int, reward: float, arm: int, *, counted: bool) -> None:
        if self.log is not None:
            self.log.settle(ticket, reward=reward, arm=arm, counted=counted, known_from=self._rcb.rounds)

    # --- what comes in ---

    def _found(self, ticket: object) -> Pending | None:
        """What a ticket was issued for; None if its reward was given up."""
        pending = self.pending.get(ticket)
        if pending is None and not (isinstance(ticket, int | np.integer) and int(ticket) in self.given_up):
            raise DataError(self._unknown(ticket))
        return pending

    def _check(self, tickets: np.ndarray) -> None:
        """Refuse tickets (n,) that are not out, nor given up."""
        known = self.pending.are_out(tickets)
        if self.given_up:
            known |= np.array([ticket in self.given_up for ticket in tickets.tolist()], dtype=bool)
        if not known.all():
            raise DataError(self._unknown(tickets.tolist()[int(np.argmin(known))]))

    def _unknown(self, ticket: object) -> str:
        if isinstance(ticket, int) and 0 <= ticket < self._rcb.rounds:
            return f"The reward of ticket {ticket} has come already, or was given up. Hand in each reward once."
        return f"There is no ticket {ticket!r}. Use the ticket of a recommendation."

    def _as_reward(self, reward: float) -> float:
        if not is_number(reward):
            raise DataError(f"A reward must be a finite number, got {reward!r}. Leave out rewards that never came.")
        if not self._rcb.market.noise.is_gaussian and reward not in (0, 1):
            raise DataError(f"Bernoulli rewards are 0 or 1, got {reward!r}.")
        return float(reward)
