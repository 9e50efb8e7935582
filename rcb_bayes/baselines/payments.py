r"""Payments: users see all that is known, and are paid what following costs them beyond epsilon.

.. math:: (\max_j m_j(x) - m_i(x) - \epsilon)^+

of a recommendation i, with m the posterior means given all data. No mechanism has to hide anything then, and any policy
is followed: what is left is the bill.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.baselines.greedy import Greedy
from rcb_bayes.baselines.thompson import LinThompson
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.running.protocol import Policy, PolicyMaker, completed
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_amount, as_count

if TYPE_CHECKING:
    import xarray as xr


class Payments(Policy):
    """Any policy, with users who see the data and are paid for what they lose beyond epsilon.

    Source: after Frazier, Kempe, Kleinberg and Kleinberg, "Incentivizing exploration", 2014.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    policy : callable, optional
        A function (market, seed) -> policy that recommends; Thompson sampling unless given.
    epsilon : float
        What users put up with for nothing.
    batch : int
        Rounds after which users see what has come in.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    paid : float
        The bill so far, in units of the reward.
    n_paid : int
        Users who were paid so far.

    Raises
    ------
    RcbError
        An epsilon that is negative, a batch below 1.

    Applicability
    -------------
    Everybody follows, as everybody is paid for it: ``audit``, which knows of no payments, says what would be without.
    Users reckon with the users' belief, by which they are paid. ``gain`` of its runs is what users expect of the arm
    beyond its best rival: ``bill`` adds it up.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> make = lambda own, seed: rcb.baselines.Payments(own, epsilon=0.05, batch=10, seed=seed)
    >>> runs = rcb.simulate(market, make, horizon=300, n_worlds=5, seed=1)
    >>> bill = rcb.baselines.bill(runs, epsilon=0.05)
    >>> bool(bill["total"] > 0), bool(bill["share_paid"] < 0.5)
    (True, True)
    """

    def __init__(
        self,
        market: Market,
        policy: PolicyMaker | None = None,
        *,
        epsilon: float = 0.05,
        batch: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.epsilon = as_amount(epsilon, name="epsilon")
        self.batch = as_count(batch, name="batch", least=1)
        make = policy or (lambda own, own_seed: LinThompson(own, batch=self.batch, seed=own_seed))
        self.policy = completed(make(market, seed))
        self.accounts = Greedy(replace(market, platform_prior=market.prior), batch=self.batch, seed=seed)
        self.paid, self.n_paid = 0.0, 0

    def recommend_proba(self, x: Table) -> FloatArray:
        """The policy's, (n, d) -> (n, K)."""
        return self.policy.recommend_proba(x)

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The policy's, with what users expect of every arm by then."""
        known = self.accounts.decide(x, features, uniforms)
        n = len(known)
        decided = self.policy.decide(x[:n], features[:, :n], uniforms[:n])
        scores = known.scores[:, : len(decided)]
        return Decisions(
            arm=decided.arm,
            stage=decided.stage,
            counted=decided.counted,
            probabilities=decided.probabilities,
            scores=scores,
        )

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Pay; the policy learns as it does, users see everything."""
        due = payment(decisions.gain, self.epsilon)
        self.paid += float(due.sum())
        self.n_paid += int((due > 0).sum())
        self.policy.update(x, decisions, reward)
        self.accounts.update(x, decisions, reward)

    @property
    def n_by_arm(self) -> np.ndarray:
        """Samples of each arm, (K,)."""
        return self.accounts.history.n

    @property
    def cold_start_length(self) -> int:
        """The policy's."""
        return self.policy.cold_start_length


def payment(gain: FloatArray, epsilon: float) -> FloatArray:
    """What is due to users who expect ``gain`` of the arm beyond its best rival: what they lose beyond epsilon."""
    return np.maximum(-gain - epsilon, 0.0)


def bill(runs: "xr.Dataset", *, epsilon: float) -> "xr.Dataset":
    """What paying every user what she loses beyond epsilon comes to, where all see all that is known.

    Parameters
    ----------
    runs : Dataset
        Of ``simulate``, with every round kept; of ``Payments``, or of any policy that says what it expects.
    epsilon : float
        What users put up with for nothing.

    Returns
    -------
    xarray.Dataset
        ``total``, in units of the reward over all rounds; ``per_exploration``, of a recommendation of another arm than
        the best known; ``per_payment``; ``share_paid`` of all rounds; each with ``*_mcse`` over worlds.

    Raises
    ------
    RcbError
        Runs that keep only some rounds, an epsilon that is negative, runs of a policy that expects nothing.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``: what a plan saves by hiding what it knows.

    >>> runs = rcb.simulate(market, plan, horizon=300, n_worlds=5, seed=1)
    >>> bool(rcb.baselines.bill(runs, epsilon=0.1)["total"] > 0)
    True
    """
    import xarray as xr

    allowed = as_amount(epsilon, name="epsilon")
    if runs.attrs.get("every", 1) != 1:
        raise RcbError("A bill needs every round. Simulate with every=1.")
    gain = runs["gain"].values
    if not np.isfinite(gain).all():
        raise RcbError(
            "This policy does not say what it expects of arms. Wrap it: rcb.baselines.Payments(market, policy)."
        )
    due, apart = payment(gain, allowed), gain < 0.0
    total = due.sum(axis=1)
    figures = {
        "total": (total, np.ones(len(total))),
        "per_exploration": (total, apart.sum(axis=1)),
        "per_payment": (total, (due > 0.0).sum(axis=1)),
        "share_paid": ((due > 0.0).mean(axis=1), np.ones(len(total))),
    }
    out = {}
    for name, (value, count) in figures.items():
        out[name], out[f"{name}_mcse"] = ratio(value, count)
    return xr.Dataset(out, attrs=dict(runs.attrs) | {"allowed": allowed})


def ratio(value: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Sums over worlds of one thing over those of another, and its error; 0 where there is none of it."""
    n, size = len(value), float(np.mean(count))
    if size == 0.0:
        return 0.0, 0.0
    found = float(np.mean(value)) / size
    if n < 2:
        return found, float("nan")
    return found, float(np.std(value - found * count, ddof=1) / np.sqrt(n) / size)
