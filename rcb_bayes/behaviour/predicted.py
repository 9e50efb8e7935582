"""Who would follow, by an audit: the share of recommendations at each stage."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.auditing import Audit
from rcb_bayes.errors import RcbError

if TYPE_CHECKING:
    import xarray as xr


def predicted_following(audit: Audit) -> "xr.Dataset":
    r"""The share of recommendations that rational users follow at each stage, by the margins of an audit.

    .. math:: E_x \sum_i \Pr(I = i | x)\, 1\{\min_j D_{ij}(x) \ge -\epsilon\}

    over the users drawn at random, with D the conditional margins.

    Parameters
    ----------
    audit : Audit
        Of a plan, or of any policy.

    Returns
    -------
    xarray.Dataset
        Over stages: ``share`` and ``share_mcse``, its error over users.

    Raises
    ------
    RcbError
        An audit of a log, whose margins are those of one run.

    Applicability
    -------------
    As in the audit, everybody before has followed. Where many refuse, later samples come from others, and so does what
    later users are told: ``simulate(..., behaviour=Rational())`` has that, too.

    Examples
    --------
    With ``found`` as in ``audit``:

    >>> rcb.behaviour.predicted_following(found)["share"].values
    array([1., 1., 1., 1.])
    """
    import xarray as xr

    if audit.kind == "realised":
        raise RcbError("A log has realised margins only. Audit the plan: rcb.audit(market, plan).")
    margins = audit.by_notion["user"].isel(user=slice(len(audit.users)))
    lowest = margins["estimate"].min("rival")  # NaN where the arm is never recommended
    mass = margins["mass"].max("rival").fillna(0.0)
    follows = (mass * (lowest >= -audit.epsilon - 1e-12)).sum("arm")
    total = mass.sum("arm")
    share = (follows / total.where(total > 0)).transpose("stage", "user").values
    n = share.shape[1]
    error = share.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(share))
    return xr.Dataset(
        {"share": ("stage", share.mean(axis=1)), "share_mcse": ("stage", error)},
        coords={"stage": margins["stage"].values},
        attrs={"epsilon": audit.epsilon, "seed": audit.seed, "belief": audit.belief},
    )
