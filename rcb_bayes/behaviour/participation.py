"""What users gain by being there, and what would have to be paid to have them follow: read off an audit."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.auditing import Audit
from rcb_bayes.baselines.payments import payment
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import ANY_RIVAL
from rcb_bayes.mechanism.panel import panel_of_people

if TYPE_CHECKING:
    import xarray as xr


def participation(market: Market, audit: Audit) -> "xr.Dataset":
    r"""What users gain by following over ignoring the platform, at each stage.

    User x who ignores it takes her favourite :math:`a_0 = \arg\max_j \mu_0(x, j)`. Following she expects

    .. math:: E[m_I(x)] - \mu_0(x, a_0) = \sum_i \Pr(I = i | x)\, D_{i a_0}(x)

    more, with D the audit's conditional margins. What would have to be paid to have everybody follow, to each what she
    loses beyond epsilon given what she is told and no more, is read off the same margins (``bill``).

    Parameters
    ----------
    market : Market
        That of the audit.
    audit : Audit
        Of a plan, or of any policy.

    Returns
    -------
    xarray.Dataset
        Over stages and users (drawn at random): ``gain``, with ``gain_mcse`` (at most; errors of arms are added up);
        over stages: ``mean_gain``, ``mean_gain_mcse``, ``share_gaining`` (of users who lose nothing), ``bill`` a round
        and ``bill_mcse`` over users.

    Raises
    ------
    RcbError
        An audit of a log, or one of so many arms that margins are not kept rival by rival; another market.

    Examples
    --------
    With ``market`` as in ``calibrate``, and ``found`` as in ``audit``:

    >>> gains = rcb.behaviour.participation(market, found)
    >>> bool((gains["mean_gain"] > -0.1).all()), gains["bill"].values.round(2)
    (True, array([0., 0., 0., 0.]))
    """
    import xarray as xr

    if audit.kind == "realised":
        raise RcbError("A log has realised margins only. Audit the plan: rcb.audit(market, plan).")
    margins = audit.by_notion["user"].isel(user=slice(len(audit.users)))
    if ANY_RIVAL in margins["rival"].values:
        raise RcbError("Margins of so many arms are not kept rival by rival: what users gain cannot be told.")
    if tuple(margins["arm"].values) != market.arms:
        raise RcbError(f"The audit is of other arms, {', '.join(margins['arm'].values)}. Pass its own market.")
    favourite = panel_of_people(market, audit.users).prior_rewards.argmax(axis=1)
    order = ("stage", "user", "arm", "rival")
    parts = {name: margins[name].transpose(*order).values for name in ("estimate", "mcse", "mass")}
    judged = np.isfinite(parts["estimate"])  # cells that there are
    mass = np.where(judged, np.nan_to_num(parts["mass"]), 0.0).max(axis=3)  # (S, U, K)
    users = np.arange(len(favourite))
    lead, error = (np.nan_to_num(parts[name][:, users, :, favourite]).swapaxes(0, 1) for name in ("estimate", "mcse"))
    gain, gain_error = (mass * lead).sum(axis=2), (mass * error).sum(axis=2)
    lowest = np.where(judged, parts["estimate"], np.inf).min(axis=3)
    due = (mass * payment(np.where(judged.any(axis=3), lowest, 0.0), audit.epsilon)).sum(axis=2)
    n = np.sqrt(len(users))
    spread = {
        name: values.std(axis=1, ddof=1) / n if n > 1 else values[:, 0] * 0.0
        for name, values in (("gain", gain), ("due", due))
    }
    variables = {
        "gain": (("stage", "user"), gain),
        "gain_mcse": (("stage", "user"), gain_error),
        "mean_gain": ("stage", gain.mean(axis=1)),
        "mean_gain_mcse": ("stage", np.hypot(spread["gain"], gain_error.mean(axis=1))),
        "share_gaining": ("stage", (gain >= -1e-12).mean(axis=1)),
        "bill": ("stage", due.mean(axis=1)),
        "bill_mcse": ("stage", spread["due"]),
    }
    attrs = {"epsilon": audit.epsilon, "seed": audit.seed, "belief": audit.belief}
    return xr.Dataset(variables, coords={"stage": margins["stage"].values, "user": users}, attrs=attrs)
