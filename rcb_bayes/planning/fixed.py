"""A plan with N and the rate as given: what practitioners do, and what an audit can then judge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import MOST_SAMPLES
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.length import cold_start_rounds
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.expectations import expectations_of
from rcb_bayes.planning.goal import Goal, as_knows, as_samples
from rcb_bayes.planning.parts import Constants, Course, provenance_of
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import DEFAULT_SEED, as_amount, as_count, is_number


def fixed_plan(
    market: Market,
    *,
    n_per_arm: int | Sequence[int] | Mapping[str, int] = 20,
    exploration_rate: float = 0.5,
    epsilon: float = 0.05,
    notion: str = "user",
    knows: str = "auto",
    seed: int = DEFAULT_SEED,
) -> Plan:
    """A plan with this many samples of every arm and this rate for all users.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int, sequence or mapping
        N, samples of each arm in the cold start: a number, or one for each arm, in their order or by label. An arm with
        0 is not explored.
    exploration_rate : float
        q, how often users are explored once an arm is saturated; above 0, at most 1.
    epsilon : float
        What an audit of the plan is to judge by, unless it is told otherwise.
    notion : str
        What an audit of the plan is to judge by, unless it is told otherwise.
    knows : str
        What users know of the clock, unless an audit is told otherwise; see ``calibrate``.
    seed : int
        Of the simulated cold starts, whose length is all that is computed.

    Returns
    -------
    Plan
        The plan, feasible as it stands: whether users would follow is for ``audit`` to say.

    Raises
    ------
    RcbError
        A rate outside (0, 1], N below 1 or 0 for all arms, a negative epsilon, an unknown notion.

    Applicability
    -------------
    Whether users follow is for ``audit`` to say. There is no guard in exploitation.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> plan = rcb.fixed_plan(market, n_per_arm=10, exploration_rate=0.5)
    >>> plan.exploration_rate, round(plan.expected_cold_start)
    (0.5, 30)
    >>> rcb.audit(market, plan, horizon=50, n_worlds=200, n_users=20).verdict
    'fail'
    """
    plan = given_plan(
        market, n_per_arm=n_per_arm, exploration_rate=exploration_rate, epsilon=epsilon, notion=notion, knows=knows
    )
    length = cold_start_rounds(
        market,
        n_per_arm=plan.agenda,
        exploration_rate=plan.exploration_rate,
        seed=as_count(seed, name="seed", least=0),
    )
    return replace(
        plan,
        course=Course(expected_cold_start=length.mean, expected_cold_start_mcse=length.mcse),
        provenance=replace(plan.provenance, seed=seed),
    )


def given_plan(
    market: Market,
    *,
    n_per_arm: int | Sequence[int] | Mapping[str, int] | Agenda,
    exploration_rate: float,
    epsilon: float = 0.05,
    notion: str = "user",
    knows: str = "auto",
) -> Plan:
    """The same without the length of its cold start, for policies that are made by the thousand."""
    n = as_samples(n_per_arm, market, most=MOST_SAMPLES)
    agenda = n if isinstance(n, Agenda) else None
    if not (is_number(exploration_rate) and 0 < exploration_rate <= 1):
        raise RcbError(f"exploration_rate is above 0 and at most 1, got {exploration_rate!r}.")
    rate = float(exploration_rate)
    return Plan(
        goal=Goal(
            epsilon=as_amount(epsilon, name="epsilon"),
            notion=as_notion(notion).name,
            personalised=False,
            knows=as_knows(knows, market, n),
        ),
        constants=Constants(
            kind="fixed",
            n_per_arm=n.n_per_arm if isinstance(n, Agenda) else n,
            exploration_rate=rate,
            inverse_rate=1.0 / rate,
        ),
        before=expectations_of(market, admission=agenda),
        provenance=provenance_of(
            market, seed=0, notes=("N and the rate are as given: whether users follow is for an audit to say.",)
        ),
    )
