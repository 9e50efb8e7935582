"""What tests of figures share: saving them, since warnings are errors, and reading their legends."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def save(axes: Axes, folder: Path) -> None:
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.savefig(folder / "figure.png")  # warnings are errors
    assert (folder / "figure.png").stat().st_size > 1000


def dots_of(axes: Axes) -> list[Line2D]:
    """The dots of what was drawn with error bars."""
    bars = [part for part in axes.containers if isinstance(part, ErrorbarContainer)]
    return [part.lines[0] for part in bars if part.lines[0] is not None]


def labels_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]
