"""Which of the paper's claims are about which setting, and all of them judged."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rcb_bayes.studies.paper import claims, effects
from rcb_bayes.studies.paper.claims import Claim, runs_of
from rcb_bayes.studies.paper.settings import KINDS

if TYPE_CHECKING:
    import xarray as xr

Judge = Callable[..., list[Claim]]
_COMMON: tuple[Judge, ...] = (claims.gain_above, claims.audited_above, claims.upward_trend, effects.sublinear)
_OWN: dict[str, tuple[Judge, ...]] = {
    "setting-1": (
        *_COMMON,
        partial(effects.level, "setting-1"),
        effects.ten_arms_cost_more,
        claims.cubic_in_arms,
        claims.mild_in_features,
    ),
    "setting-2": (
        partial(effects.level, "setting-2"),
        claims.ad_hoc_negative,
        effects.worse_with_features,
        effects.mostly_negative,
        claims.ad_hoc_fails,
    ),
    "setting-3": (*_COMMON, claims.falls_with_epsilon, claims.larger_for_small_variance),
    "setting-4": (
        *_COMMON,
        effects.linear_gains_most,
        effects.gain_grows_with_variance,
        claims.larger_for_small_variance,
        claims.schedules_alike,
        effects.schedules_converge,
    ),
}


def judge_setting(name: str, parts: "list[xr.Dataset]") -> list[Claim]:
    """All claims that the paper makes about a setting, whoever its users are."""
    found = []
    for judge in _OWN[name.removesuffix("-orthant")]:
        for kind in KINDS:
            runs = [run for part in parts for run in runs_of(part, kind)]
            if runs:
                found += judge(kind, runs)
    return found
