"""Plans as coarse as what users know: none by stage is handed out in their place where it is shorter."""

from typing import Any

import pytest

import rcb_bayes as rcb
from rcb_bayes.planning import calibration


def coarse_plan(market: rcb.Market, **asked: Any) -> rcb.Plan:
    """What ``calibrate`` makes for users who know less than the stage, however much longer than the plan by stage."""
    right = calibration.shorter

    def coarser(one: Any, other: Any, *, clearly: bool = False) -> Any:
        return one if clearly else right(one, other)  # clearly shorter is asked of plans by stage alone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "shorter", coarser)
        plan = rcb.calibrate(market, **asked)
    assert plan.knows == asked["knows"]
    return plan
