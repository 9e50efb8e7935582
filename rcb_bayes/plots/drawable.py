"""What a plan must have to be drawn."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.schema import FloatArray


@runtime_checkable
class DrawablePlan(Protocol):
    """A plan, as far as figures go; ``rcb_bayes.Plan`` is one."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Labels of the arms."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Labels of the features."""
        ...

    @property
    def kind(self) -> str:
        """How it was made."""
        ...

    @property
    def agenda(self) -> Agenda:
        """Samples of each arm."""
        ...

    @property
    def personalised(self) -> bool:
        """Whether each user has a rate of her own."""
        ...

    @property
    def coverage(self) -> tuple[float, ...]:
        """Each arm's smallest eigenvalue of X'X/N; empty where nothing was simulated."""
        ...

    @property
    def coverage_mcse(self) -> tuple[float, ...]:
        """Its errors."""
        ...

    def rate(self, x: FloatArray, *, saturated: Sequence[str] | None = None) -> FloatArray:
        """Exploration rates of users (U, d), (U,)."""
        ...
