"""What a plan is made of: eight parts, whose figures can be read on the plan by their own names."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rcb_bayes.mechanism.knowledge import Knows
from rcb_bayes.planning.expectations import Expectations
from rcb_bayes.planning.exploitation import PlannedExploitation
from rcb_bayes.planning.goal import Goal
from rcb_bayes.planning.parts import Constants, Course, Feasibility, PlanKind, Provenance
from rcb_bayes.planning.stages import PlannedColdStart
from rcb_bayes.planning.types import TypedPlans


def _shown[T](read: "Callable[[PlanFigures], T]") -> T:
    """An attribute of a part, readable on the plan itself; type checkers take it for what it reads."""
    return property(read)  # pyright: ignore[reportReturnType]


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanFigures:
    """The parts of a plan, and all that they have by name; see ``Plan``."""

    goal: Goal
    constants: Constants
    before: Expectations
    cold_start: PlannedColdStart = field(default_factory=PlannedColdStart)
    course: Course = field(default_factory=Course)
    exploitation: PlannedExploitation = field(default_factory=PlannedExploitation)
    feasibility: Feasibility = field(default_factory=Feasibility)
    provenance: Provenance
    types: TypedPlans | None = None

    epsilon = _shown(lambda plan: plan.goal.epsilon)
    personalised = _shown(lambda plan: plan.goal.personalised)
    n_per_arm = _shown(lambda plan: plan.constants.n_per_arm)
    exploration_rate = _shown(lambda plan: plan.constants.exploration_rate)
    exploration_rate_mcse = _shown(lambda plan: plan.constants.exploration_rate_mcse)
    inverse_rate = _shown(lambda plan: plan.constants.inverse_rate)
    inverse_rate_mcse = _shown(lambda plan: plan.constants.inverse_rate_mcse)
    tau = _shown(lambda plan: plan.constants.tau)
    tau_mcse = _shown(lambda plan: plan.constants.tau_mcse)
    rho = _shown(lambda plan: plan.constants.rho)
    rho_mcse = _shown(lambda plan: plan.constants.rho_mcse)
    ideal_rate = _shown(lambda plan: plan.constants.ideal_rate)
    first_epoch = _shown(lambda plan: plan.constants.first_epoch)
    guarantee_probability = _shown(lambda plan: plan.constants.guarantee_probability)
    arms = _shown(lambda plan: plan.before.arms)
    features = _shown(lambda plan: plan.before.features)
    prior_mean = _shown(lambda plan: plan.before.prior_mean)
    platform_mean = _shown(lambda plan: plan.before.platform_mean)
    known = _shown(lambda plan: plan.before.known)
    whom = _shown(lambda plan: plan.before.whom)
    admission = _shown(lambda plan: plan.before.admission)
    stages = _shown(lambda plan: plan.cold_start.stages)
    alike = _shown(lambda plan: plan.cold_start.alike)
    programme = _shown(lambda plan: plan.cold_start.programme)
    expected_cold_start = _shown(lambda plan: plan.course.expected_cold_start)
    expected_cold_start_mcse = _shown(lambda plan: plan.course.expected_cold_start_mcse)
    cold_start_scatter = _shown(lambda plan: plan.course.cold_start_scatter)
    expected_pulls = _shown(lambda plan: plan.course.expected_pulls)
    expected_pulls_mcse = _shown(lambda plan: plan.course.expected_pulls_mcse)
    expected_regret = _shown(lambda plan: plan.course.expected_regret)
    expected_regret_mcse = _shown(lambda plan: plan.course.expected_regret_mcse)
    coverage = _shown(lambda plan: plan.course.coverage)
    coverage_mcse = _shown(lambda plan: plan.course.coverage_mcse)
    share_explored = _shown(lambda plan: plan.course.share_explored)
    share_free = _shown(lambda plan: plan.course.share_free)
    spread_multiple = _shown(lambda plan: plan.exploitation.spread_multiple)
    guards = _shown(lambda plan: plan.exploitation.guards)
    guarded_for = _shown(lambda plan: plan.exploitation.guarded_for)
    has_guard = _shown(lambda plan: plan.exploitation.has_guard or (plan.types is not None and plan.types.has_guard))
    feasible = _shown(lambda plan: plan.feasibility.feasible)
    reason = _shown(lambda plan: plan.feasibility.reason)
    nearest_epsilon = _shown(lambda plan: plan.feasibility.nearest_epsilon)
    verdict = _shown(lambda plan: plan.feasibility.verdict)
    choices = _shown(lambda plan: plan.feasibility.choices)
    unguarded_n = _shown(lambda plan: plan.feasibility.unguarded_n)
    belief = _shown(lambda plan: plan.provenance.belief)
    made_for = _shown(lambda plan: plan.provenance.made_for)
    made_of = _shown(lambda plan: plan.provenance.made_of)
    engine = _shown(lambda plan: plan.provenance.engine)
    n_worlds = _shown(lambda plan: plan.provenance.n_worlds)
    audit_worlds = _shown(lambda plan: plan.provenance.audit_worlds)
    n_posteriors = _shown(lambda plan: plan.provenance.n_posteriors)
    n_not_vouched = _shown(lambda plan: plan.provenance.n_not_vouched)
    seed = _shown(lambda plan: plan.provenance.seed)
    version = _shown(lambda plan: plan.provenance.version)
    notes = _shown(lambda plan: plan.provenance.notes)
    horizon = _shown(lambda plan: plan.provenance.horizon)
    unexplored = _shown(lambda plan: plan.provenance.unexplored)

    # Words of a kind: an attribute without a type of its own would be taken for any text.

    @property
    def notion(self) -> str:
        """In which sense users put up with epsilon."""
        return self.goal.notion

    @property
    def knows(self) -> Knows:
        """What users know of the clock."""
        return self.goal.knows

    @property
    def kind(self) -> PlanKind:
        """How the constants were found."""
        return self.constants.kind
