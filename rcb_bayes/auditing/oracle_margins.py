r"""What an oracle's own intervals say about the users of a live recommender, and what they do not.

With an interval :math:`[l_{ij}(x), u_{ij}(x)]` for the lead of arm i over rival j, and :math:`p_i(x)` the chance with
which i is recommended now, the margin of user x lies in :math:`p_i [l_{ij}, u_{ij}] / M(p_i)`, M as in
``mechanism.notions``. That is a statement about the *truth*, in repeated data: the interval misses the lead in a share
:math:`\alpha` of data sets, whatever anybody believes.

DBIC is about what *users expect*, :math:`E[p_i (\mu_i - \mu_j)]` under their belief. The one follows from the other in
part. Suppose that the interval misses at most :math:`\alpha` in **every** world that users hold possible, and that
leads are at most R there. A mechanism that recommends i only where the lower bound clears :math:`-\epsilon` then has

.. math:: E[p_i (\mu_i - \mu_j + \epsilon)] \ge -\alpha (R - \epsilon),

because where the interval holds no term is negative, and where it misses none is below :math:`-(R - \epsilon)`. So
``proof`` holds at :math:`\epsilon + \alpha R`. Nothing follows for ``user`` and ``definition``, which divide by how
often i is recommended: the misses may all fall where it is. And a belief with worlds in which the oracle is biased, or
in which leads have no bound, is outside of it altogether.
"""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.auditing.run import as_users
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.intervals import SurePredictor
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.schema import ARM, DEFAULT_SEED, as_amount, as_count, as_probability
from rcb_bayes.users.labelled import Users

if TYPE_CHECKING:
    import xarray as xr

_CERTIFIES = {
    "mean": (
        "Suppose that data were collected again and again in one and the same world. Each interval would hold the true "
        "margin of its user, arm and rival {share:.0%} of the time. Two conditions: the oracle can follow the truth "
        "there (its bias is not in the interval), and arms were not chosen in the light of rewards. The second holds "
        "after a cold start, and nearly so later."
    ),
    "reward": (
        "Suppose that data were collected again and again in one and the same world. Each interval would hold the "
        "margin in rewards of a new user about {share:.0%} of the time, and at least {floor:.0%}, whatever the truth. "
        "One condition: users come as those of both arms' samples did."
    ),
}
_DOES_NOT = (
    "It certifies nothing about what users believe, and so not DBIC. One step can be made. Suppose that users think "
    "no world possible in which the intervals miss more often than that, or in which an arm leads by more than R. "
    "Recommend only where the lower bound clears -epsilon: then `proof` holds at epsilon + {level:g} R. `user` and "
    "`definition` do not follow, since the misses may all fall where an arm is recommended. For those audit the oracle "
    "in worlds of the users' belief (rcb.audit(market, agent)), or cut it to what they accept (rcb.Heeding)."
)


def oracle_margins(
    agent: Recommender,
    users: Users | None = None,
    *,
    n_users: int = 100,
    level: float = 0.05,
    epsilon: float | None = None,
    notion: str | None = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """An interval for the margin of each user, arm and rival, by the oracle that a recommender acts on now.

    Parameters
    ----------
    agent : Recommender
        In its exploitation, with a ``Bootstrapped`` or ``Conformal`` oracle (within ``Heeding`` or not).
    users : array_like, optional
        (U, d); ``n_users`` drawn at random unless given.
    n_users : int
        How many are drawn.
    level : float
        Of miscoverage, of each interval by itself.
    epsilon : float, optional
        What users put up with; the plan's unless given.
    notion : str, optional
        "user", "proof" or "definition" (the same intervals as "user": a user's margin given her recommendation); the
        plan's unless given.
    seed : int
        Of the users drawn.

    Returns
    -------
    xarray.Dataset
        Dims (user, arm, rival): ``estimate``, ``lower``, ``upper``, NaN for an arm that is not recommended or its own
        rival, ``chance`` (user, arm), ``holds``: 1 where the lower bound clears -epsilon, -1 where the upper one does
        not, else 0. The attributes ``certifies`` and ``does_not_certify`` say what that is worth, ``infinite`` why
        intervals have no end (nothing where all have one). ``n_samples`` are those of all arms so far, N of each from
        the cold start and rounds of exploitation.

    Raises
    ------
    RcbError
        A recommender in its cold start, an oracle without intervals, a level that is none.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> oracle = rcb.Heeding(rcb.Bootstrapped(rcb.RidgeOracle(penalty=0.1)))
    >>> agent = rcb.Recommender(market, plan, oracle=oracle, seed=1)
    >>> for x in market.covariates.sample(100, seed=2):
    ...     agent.observe(0.4 * x.sum(), ticket=agent.recommend(x).ticket)
    >>> found = rcb.oracle_margins(agent, [[0.9, 0.1]])
    >>> found["lower"].dims, bool((found["lower"] <= found["upper"]).where(found["lower"].notnull(), True).all())
    (('user', 'arm', 'rival'), True)
    >>> found.attrs["does_not_certify"][:52]
    'It certifies nothing about what users believe, and s'
    """
    import xarray as xr

    as_probability(level, name="level")
    market, plan = agent.market, agent.plan
    epsilon = plan.epsilon if epsilon is None else epsilon
    as_amount(epsilon, name="epsilon")
    judged = as_notion(notion or plan.notion)
    predictor = _sure(agent)
    if users is None:
        people = market.covariates.sample(as_count(n_users, name="n_users", least=1), seed=seed)
    else:
        people = as_users(market, users)
    features = np.ascontiguousarray(market.features_of(people).T)
    chance = agent.recommend_proba(people).T  # (K, U)
    lower, upper = predictor.margins(features, level=level)
    scores = predictor.scores(features)
    mass = judged.mass(chance)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = (chance / mass)[:, None]
        bounds = {"estimate": scores[:, None] - scores, "lower": lower, "upper": upper}
        told = (chance > 0)[:, None] & ~np.eye(len(chance), dtype=bool)[:, :, None]
        found = {name: np.where(told, weight * value, np.nan) for name, value in bounds.items()}
    holds = np.where(found["lower"] >= -epsilon, 1, np.where(found["upper"] < -epsilon, -1, 0))
    dims = (ARM, "rival", "user")
    made = xr.Dataset(
        {
            **{name: (dims, value) for name, value in found.items()},
            "holds": (dims, np.where(told, holds, 0).astype(np.int8)),
            "chance": ((ARM, "user"), chance),
        },
        coords={ARM: list(market.arms), "rival": list(market.arms)},
        attrs={
            "certifies": _CERTIFIES[predictor.of].format(share=1.0 - level, floor=1.0 - 2.0 * level),
            "does_not_certify": _DOES_NOT.format(level=level),
            "intervals_of": predictor.of,
            "infinite": _infinite(np.isinf(found["upper"] - found["lower"]), told, predictor.of, level=level),
            "level": float(level),
            "epsilon": float(epsilon),
            "notion": judged.name,
            "n_samples": int(sum(agent.n_samples.values())),
            "seed": seed,
            "version": __version__,
        },
    )
    return made.transpose("user", ARM, "rival")


def _infinite(infinite: np.ndarray, told: np.ndarray, of: str, *, level: float) -> str:
    """Why intervals have no end, in how many of those that there are; nothing where all have one."""
    if not infinite.any():
        return ""
    least = int(np.ceil(2.0 / level - 1e-9)) - 1 if of == "reward" else 2
    return f"{infinite.sum() / told.sum():.0%} have no end: at this level each arm needs {least} samples of its own"


def _sure(agent: Recommender) -> SurePredictor:
    """What the recommender acts on, if it has intervals."""
    predictor = agent.acts_on
    if agent.stage != "exploit":
        raise RcbError(
            "An oracle is asked in exploitation, and this recommender is in its cold start: its plan answers."
        )
    if not isinstance(predictor, SurePredictor):
        oracle = agent.own_oracle.oracle if isinstance(agent.own_oracle, Heeding) else agent.own_oracle
        name = "PosteriorOracle" if oracle is None else type(oracle).__name__
        raise RcbError(
            f"A {name} has no intervals of its own. Wrap it: rcb.Bootstrapped(oracle) or rcb.Conformal(oracle)."
        )
    return predictor
