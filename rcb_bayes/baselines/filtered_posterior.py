"""Filtered posterior sampling: Thompson sampling on what is let through, after a warm start that covers all users."""

from math import ceil

import numpy as np

from rcb_bayes.baselines.cold_started import Collect, as_collect, collecting
from rcb_bayes.baselines.hidden_exploration import settled_rate
from rcb_bayes.baselines.thompson import LinThompson
from rcb_bayes.baselines.warm_thompson import ThompsonAfter, needed_samples
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import MOST_SAMPLES
from rcb_bayes.schema import DEFAULT_SEED, as_count, as_positive


class FilteredPosterior(ThompsonAfter):
    r"""A warm start until every arm's samples cover every direction, then posterior sampling on a filtered history.

    The warm start ends when :math:`\lambda_{min}(X_i'X_i) \ge \lambda_0` for every arm i: samples are counted by what
    they tell of the hardest direction, and not by their number. From then on each arm is recommended with the
    probability that it is the best, given the history that a filter lets through: here what came in before the last
    batch.

    Source: Kalvit, Slivkins and Gur, "Incentivized exploration via filtered posterior sampling", 2024, whose warm start
    asks for spectral diversity; the constant is not theirs (see ``WarmThompson``).

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    least_eigenvalue : float, optional
        lambda_0; unless given, the number of samples that users who are alike would need (``warm_start_samples``).
    constant : float
        C of that number.
    collect : {"hidden", "in turn"}
        How the samples come in: "hidden", by hidden exploration, or "in turn", without asking users.
    inverse_rate : float, optional
        L of the hidden exploration, from the belief unless given.
    n_draws, batch : int
        Of the posterior sampling: draws for each user, and rounds after which the filter lets the history through.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    least_eigenvalue : float
        lambda_0.

    Raises
    ------
    RcbError
        Numbers that are not positive, another way to collect, users who leave a direction out (phi0 = 0), an arm that
        is never the best for some user, a belief under which no exploration can be hidden.

    Applicability
    -------------
    Proven for rewards in [0, 1] with a constant that is not given: whether a warm start will do is for ``audit`` to
    say. When it ends depends on who came, never on rewards.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> policy = rcb.baselines.FilteredPosterior(market, least_eigenvalue=2.0, collect="in turn")
    >>> policy.least_eigenvalue, policy.cold_start_length
    (2.0, -1)
    """

    def __init__(
        self,
        market: Market,
        *,
        least_eigenvalue: float | None = None,
        constant: float = 1.0,
        collect: Collect = "hidden",
        inverse_rate: float | None = None,
        n_draws: int = 1,
        batch: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        as_collect(collect)
        c = as_positive(constant, name="constant")
        own = needed_samples(market, c) if least_eigenvalue is None else least_eigenvalue
        self.least_eigenvalue = as_positive(own, name="least_eigenvalue")
        phi0 = market.population.phi0
        if phi0 <= 0:
            raise RcbError(
                "Users leave a direction out (phi0 = 0): no number of samples covers it. Drop a feature that the "
                "others add up to, or plan with rcb.calibrate."
            )
        self._n = as_count(max(1, ceil(self.least_eigenvalue / phi0)), name="n_per_arm", least=1, most=MOST_SAMPLES)
        self._collect, self._rate = collect, 1.0
        if collect == "hidden":
            self._rate = settled_rate(
                market, inverse_rate, n_per_arm=self._n, what="A warm start by hidden exploration"
            )
        super().__init__(market, collecting(market, n_per_arm=self._n, collect=collect, inverse_rate=self._rate))
        self.thompson = LinThompson(market, n_draws=n_draws, batch=batch, seed=seed)

    def begin(self) -> None:
        """Hand the warm start over, or go on with it where a direction is not covered."""
        history = self.cold.history
        if np.linalg.eigvalsh(history.sums().xtx[0]).min() >= self.least_eigenvalue:
            self.thompson.begin_with(history)
            self.history = self.thompson.history
            return
        self._length, self._n = -1, 2 * self._n
        self.cold = collecting(self.market, n_per_arm=self._n, collect=self._collect, inverse_rate=self._rate)
        self.cold.history.join(history)
        self.history = self.cold.history
