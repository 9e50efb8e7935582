"""Users of a live recommender, one at a time, as a simulation has them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import RcbError
from rcb_bayes.running.conduct import Behaviour, Offers, Scene
from rcb_bayes.running.recommendations import Recommendation
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.running.worlds import Whims
from rcb_bayes.schema import DEFAULT_HORIZON, FloatArray, as_count
from rcb_bayes.users.labelled import as_users


class LiveUsers:
    """Users of a recommender who do as a behaviour has it: a rehearsal of a live loop.

    Their random numbers are those of a simulated world with the recommender's seed, so that a live loop and
    ``simulate(..., behaviour=...)`` give the same trajectory.

    Parameters
    ----------
    agent : Recommender
        What they are told by.
    behaviour : Behaviour
        What they make of it.
    horizon : int
        Rounds that they reckon with, where they do.

    Raises
    ------
    RcbError
        A behaviour that cannot be in this market.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> agent = rcb.Recommender(market, plan, seed=1)
    >>> users = rcb.behaviour.LiveUsers(agent, rcb.behaviour.Stubborn(arm="old"))
    >>> for x in market.covariates.sample(50, seed=2):
    ...     told = agent.recommend(x)
    ...     taken = users.takes(x, told)
    ...     agent.observe(0.4 * x.sum(), ticket=told.ticket, taken=taken)
    >>> agent.saturated, agent.n_samples
    (('old',), {'old': 10, 'new': 0})
    """

    def __init__(self, agent: Recommender, behaviour: Behaviour, *, horizon: int = DEFAULT_HORIZON) -> None:
        market, plan = agent.market, agent.plan
        behaviour.check(market, plan)
        horizon = as_count(horizon, name="horizon", least=1)
        scene = Scene(market=market, plan=plan, horizon=horizon, options=agent.options, seed=0)
        self._agent, self._conduct = agent, behaviour.prepared(scene)()
        self._whims = Whims(agent.seed)

    def takes(
        self,
        x: ArrayLike,
        told: Recommendation,
        *,
        rewards: Callable[[str], float] | None = None,
        noise: float | None = None,
    ) -> str:
        """The arm that a user takes, to be observed: ``agent.observe(reward, ticket=told.ticket, taken=...)``.

        Parameters
        ----------
        x : array_like
            The user, (p,).
        told : Recommendation
            What she was told, by the latest ``agent.recommend``.
        rewards : callable, optional
            Of an arm, what she would get: needed where trust goes by it.
        noise : float, optional
            The standard normal part of her reward: needed where she refuses by it.

        Returns
        -------
        str
            The arm.

        Raises
        ------
        RcbError
            Users who need to know what they would get, where that is not given.
        """
        agent, market = self._agent, self._agent.market
        arms = market.arms
        user = market.features_of(as_users(x, features=market.features, name="x", ndim=1))

        def would_get(arm: np.ndarray) -> FloatArray:
            if rewards is None:
                raise RcbError("These users go by what they get: pass it, as a function of the arm (rewards=).")
            return np.array([float(rewards(arms[int(each)])) for each in arm])

        offers = Offers(
            features=user[None],
            arm=np.array([arms.index(told.arm)]),
            moment=agent.moment,
            whims=self._whims.of_rounds(told.ticket, 1),
            noise=None if noise is None else np.array([float(noise)]),
            rewards=would_get,
        )
        return arms[int(self._conduct.take(offers)[0])]
