"""What is found along a direction, as records that travel, and are kept in files to go on from."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rcb_bayes.auditing.radius import Crossing
from rcb_bayes.files.envelope import Format
from rcb_bayes.files.records import Records

_REMEDY = "Delete the file to have it computed anew."
_LOOK = Format(name="amount", version=1, remedy=_REMEDY)
_ROW = Format(name="direction", version=1, remedy=_REMEDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is found at one amount."""

    verdict: str
    margin: tuple[float, float]
    compliance: tuple[float, float]
    cold_start: tuple[float, float]
    regret: tuple[float, float]

    def save(self, path: Path) -> None:
        """Write it to a file."""
        _looks().write(_LOOK, self, path)

    @staticmethod
    def load(path: Path) -> "Look":
        """What ``save`` wrote."""
        return _looks().read(_LOOK, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where a plan fails below and above the base, and where too few would follow."""

    status: str
    fails: tuple[Crossing, ...]
    deserted: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is found along one direction."""

    name: str
    base: float
    unit: str
    amounts: list[float]
    labels: list[str]
    epsilons: list[float]
    looks: list[Look]
    ends: Ends
    radius: tuple[float, float]
    share_radius: tuple[float, float]
    words: str

    @property
    def status(self) -> str:
        """What the radius is."""
        return self.ends.status

    def save(self, path: Path) -> None:
        """Write it to a file."""
        _rows().write(_ROW, self, path)

    @staticmethod
    def load(path: Path) -> "Row":
        """What ``save`` wrote."""
        return _rows().read(_ROW, path)


@cache
def _looks() -> Records:
    return Records(Look)


@cache
def _rows() -> Records:
    return Records(Row)
