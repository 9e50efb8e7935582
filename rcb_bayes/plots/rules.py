"""Rules: how much of a plan's exploration a table of leaves keeps."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rcb_bayes.plots.style import PALETTE, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@runtime_checkable
class DrawableRule(Protocol):
    """A rule, as far as figures go; ``rcb_bayes.Rule`` is one."""

    @property
    def course(self) -> tuple[tuple[int, float], ...]:
        """Leaves, and the share kept by them as they were grown."""
        ...

    @property
    def n_leaves(self) -> int:
        """Leaves of all tables."""
        ...

    @property
    def kept(self) -> float:
        """The share of exploration kept."""
        ...

    @property
    def kept_mcse(self) -> float:
        """Its error."""
        ...


def plot_kept(rule: DrawableRule, *, axes: "Axes | None" = None) -> "Axes":
    """The share of exploration kept over the number of leaves, as they were grown, and in the end by other users.

    Parameters
    ----------
    rule : Rule
        What ``Plan.distil`` gives.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> rcb.plots.plot_kept(plan.distil(max_leaves=16)).get_ylabel()
    'share of exploration kept'
    """
    axes = own_axes(axes)
    leaves, kept = zip(*rule.course, strict=True)
    axes.plot(leaves, kept, color=PALETTE[0], label="as grown")
    axes.errorbar(
        [rule.n_leaves], [rule.kept], yerr=[2 * rule.kept_mcse], color=PALETTE[1], marker="o", label="by other users"
    )
    axes.set_xscale("log", base=2)
    axes.set_ylim(0.0, 1.02)
    axes.set_xlabel("leaves")
    axes.set_ylabel("share of exploration kept")
    axes.legend(loc="lower right")
    return axes
