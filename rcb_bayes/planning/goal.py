"""What a plan is asked for: what users put up with, in which sense, and how precisely it is to be computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.scales import check_digits
from rcb_bayes.market.sizes import check_plan_size
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.knowledge import LEVEL, STAGE, Knows, as_knowledge, chosen_knowledge
from rcb_bayes.mechanism.notions import Notion, as_notion
from rcb_bayes.mechanism.walk import alike_arms
from rcb_bayes.schema import MOST_COUNT, as_amount, as_count, suggestion

MOST_NAMED = 62
"""Arms of which saturated sets are planned one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What must hold for users.

    Attributes
    ----------
    epsilon, notion : what users put up with, in which sense
    personalised : a rate for each user, or one for all
    knows : what users know of the clock
    """

    epsilon: float
    notion: str
    personalised: bool
    knows: Knows = "stage"

    def __post_init__(self) -> None:
        as_notion(self.notion)
        as_knowledge(self.knows)

    @property
    def sense(self) -> Notion:
        """The notion as an object: what computes its linear form."""
        return as_notion(self.notion)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(Goal):
    """A goal, the samples it is to be reached with, and how precisely that is to be computed; see ``calibrate``."""

    n_per_arm: int | Agenda
    n_worlds: int
    audit_worlds: int
    engine: str
    seed: int

    def asking(self, n_per_arm: int) -> "PlanRequest":
        """The same with another number of samples, of the arms that are explored."""
        asked = self.n_per_arm
        return replace(self, n_per_arm=asked.asking(n_per_arm) if isinstance(asked, Agenda) else n_per_arm)

    @property
    def goal(self) -> Goal:
        """The goal by itself."""
        return Goal(epsilon=self.epsilon, notion=self.notion, personalised=self.personalised, knows=self.knows)


def check_request_size(market: Market, request: PlanRequest, *, audit_worlds: int = 0) -> None:
    """Refuse plans whose stages cannot be simulated, as users know them; see ``check_plan_size``."""
    agenda = as_agenda(request.n_per_arm, market.n_arms)
    check_plan_size(
        market,
        n_per_arm=int(agenda.totals.max()),
        n_levels=agenda.n_levels - agenda.first_level,
        n_worlds=request.n_worlds,
        audit_worlds=audit_worlds,
        by_set=request.knows == STAGE.name,
        pooled=request.knows not in (STAGE.name, LEVEL.name),
    )


def as_knows(value: object, market: Market, agenda: int | Agenda) -> Knows:
    """What users know of the clock; ``auto`` is the stage where all saturated sets can be planned, else the level."""
    known = as_agenda(agenda, market.n_arms)
    alike = [arms for arms in alike_arms(market, known) if known.missing[arms[0]]]
    return chosen_knowledge(value, alike=alike if market.n_arms <= MOST_NAMED else alike_arms(market)).name


def as_samples(value: object, market: Market, *, most: int = MOST_COUNT) -> int | Agenda:
    """Samples of each arm: a number for all, or one for each, in their order or by label; 0 for none.

    Samples of a private history are on the agenda, too.

    Raises
    ------
    RcbError
        What is no count, another number of arms, arms that do not exist or are left out, 0 for all arms.
    """
    if isinstance(value, Agenda):
        return value
    arms = market.arms
    past = () if market.past is None else market.past.counts(len(arms))
    if isinstance(value, Mapping):
        named = {str(arm): n for arm, n in value.items()}
        for arm in named:
            if arm not in arms:
                raise RcbError(f"n_per_arm: there is no arm '{arm}'.{suggestion(arm, arms)} Name each arm once.")
        left_out = [arm for arm in arms if arm not in named]
        if left_out:
            raise RcbError(f"n_per_arm leaves out {left_out[0]}. Name every arm, with 0 for one not to be explored.")
        value = [named[arm] for arm in arms]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str):
        n = as_count(value, name="n_per_arm", least=1, most=most)
        return Agenda(needed=(n,) * len(arms), past=past) if past else n
    if len(value) != len(arms):
        raise RcbError(f"n_per_arm has {len(value)} numbers for {len(arms)} arms. Give one number, or one for each.")
    counts = tuple(as_count(n, name="n_per_arm", most=most) for n in value)
    agenda = Agenda(needed=counts, past=past)
    return counts[0] if agenda.is_plain and len(set(counts)) == 1 and not past else agenda


def as_request(market: Market, **values: Any) -> PlanRequest:
    """What a plan is asked for, checked."""
    epsilon, notion, personalised = (
        as_amount(values["epsilon"], name="epsilon"),
        as_notion(values["notion"]),
        values["personalised"],
    )
    if not isinstance(personalised, bool | np.bool_):
        raise RcbError(f"personalised must be True or False, got {personalised!r}.")
    if personalised and not notion.is_per_user:
        raise RcbError(
            f"The notion '{notion.name}' averages over users, so a rate of each user's own is not judged by it. "
            "Use personalised=False, or notion='user' or 'proof'."
        )
    check_digits(market, epsilon=epsilon)
    n_per_arm = as_samples(values["n_per_arm"], market)
    return PlanRequest(
        epsilon=epsilon,
        notion=notion.name,
        personalised=bool(personalised),
        knows=as_knows(values["knows"], market, n_per_arm),
        n_per_arm=n_per_arm,
        n_worlds=as_count(values["n_worlds"], name="n_worlds", least=50),
        audit_worlds=as_count(values["audit_worlds"], name="audit_worlds", least=50),
        engine=values["engine"],
        seed=as_count(values["seed"], name="seed"),
    )
