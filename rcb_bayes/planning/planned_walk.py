"""A cold start walked to its end with the rates that its stages allow, whatever users know of the clock."""

from dataclasses import dataclass

from rcb_bayes.market import Market
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.level_planner import LevelPlanner
from rcb_bayes.planning.stage_rates import RatePlanner, StageRates
from rcb_bayes.planning.stages import LaterWorlds, Programme


@dataclass(slots=True, kw_only=True, eq=False)
class PlannedWalk:
    """A cold start walked to its end with the rates that its stages allow.

    Attributes
    ----------
    programme : what raises the rates where users cannot tell levels apart; None where nothing does
    later : exploitation, where users cannot tell it from the cold start and somebody asks
    """

    settings: PlanRequest
    walk: ColdStarts
    planner: RatePlanner
    programme: Programme | None = None
    later: LaterWorlds | None = None

    @property
    def stages(self) -> dict[int, StageRates]:
        """What each planned stage allows: by the code of its set, or by the level."""
        return self.planner.stages

    @property
    def simulator(self) -> Simulator:
        """Users, engines and random numbers."""
        return self.planner.simulator

    @property
    def market(self) -> Market:
        """The market."""
        return self.planner.market

    @property
    def panel(self) -> Panel:
        """The users."""
        return self.planner.panel


def plan_walk(market: Market, settings: PlanRequest, *, simulator: Simulator | None = None) -> PlannedWalk:
    """Walk through the cold start, computing the rates of each stage on the way; in a simulation that is shared."""
    kind = RatePlanner if settings.knows == STAGE.name else LevelPlanner
    planner = kind(market, settings, simulator=simulator)
    return PlannedWalk(settings=settings, walk=planner.walked(), planner=planner)
