"""What a plan is asked for: what users put up with, in which sense, and how precisely it is to be computed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_plan_size
from rcb_bayes.mechanism.knowledge import LEVEL, STAGE, Knows, as_knowledge, chosen_knowledge
from rcb_bayes.mechanism.notions import Notion, as_notion
from rcb_bayes.mechanism.walk import alike_arms
from rcb_bayes.schema import as_count, is_number


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

    n_per_arm: int
    n_worlds: int
    audit_worlds: int
    engine: str
    seed: int

    @property
    def goal(self) -> Goal:
        """The goal by itself."""
        return Goal(epsilon=self.epsilon, notion=self.notion, personalised=self.personalised, knows=self.knows)


def check_request_size(market: Market, request: PlanRequest, *, audit_worlds: int = 0) -> None:
    """Refuse plans whose stages cannot be simulated, as users know them; see ``check_plan_size``."""
    check_plan_size(
        market,
        n_per_arm=request.n_per_arm,
        n_worlds=request.n_worlds,
        audit_worlds=audit_worlds,
        by_set=request.knows == STAGE.name,
        pooled=request.knows not in (STAGE.name, LEVEL.name),
    )


def as_epsilon(value: object) -> float:
    """An incentive budget.

    Raises
    ------
    RcbError
        What is no number, or is negative.
    """
    if not (is_number(value) and value >= 0):
        raise RcbError(f"epsilon must be a finite number of at least 0, got {value!r}.")
    return float(value)


def as_knows(value: object, market: Market) -> Knows:
    """What users know of the clock; ``auto`` is the stage where all saturated sets can be planned, else the level."""
    return chosen_knowledge(value, alike=alike_arms(market)).name


def as_request(market: Market, **values: Any) -> PlanRequest:
    """What a plan is asked for, checked."""
    epsilon, notion, personalised = as_epsilon(values["epsilon"]), as_notion(values["notion"]), values["personalised"]
    if not isinstance(personalised, bool | np.bool_):
        raise RcbError(f"personalised must be True or False, got {personalised!r}.")
    if personalised and not notion.is_per_user:
        raise RcbError(
            f"The notion '{notion.name}' averages over users, so a rate of each user's own is not judged by it. "
            "Use personalised=False, or notion='user' or 'proof'."
        )
    return PlanRequest(
        epsilon=epsilon,
        notion=notion.name,
        personalised=bool(personalised),
        knows=as_knows(values["knows"], market),
        n_per_arm=as_count(values["n_per_arm"], name="n_per_arm", least=1),
        n_worlds=as_count(values["n_worlds"], name="n_worlds", least=50),
        audit_worlds=as_count(values["audit_worlds"], name="audit_worlds", least=50),
        engine=values["engine"],
        seed=as_count(values["seed"], name="seed"),
    )
