"""Checks of logs as JSON files: what was looked at, what was found, and the counts row by row."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.files import Format, Records
from rcb_bayes.files.records import Count, NonNegative, Share

if TYPE_CHECKING:
    from rcb_bayes.auditing.following import LogCheck

_FORM = Format(name="log check", version=1, remedy="Check again: `check_log(...).save(path)` writes a file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """A row of the counts."""

    stage: str
    what: str
    observed: int
    expected: float
    p_value: float
    deviates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A ``LogCheck`` as a file has it."""

    followed: bool
    deviations: tuple[str, ...]
    counts: tuple[CountRow, ...]
    n_rounds: int
    n_propensities: int
    level: float


_RECORDS = Records(
    LogRecord,
    ranges={
        CountRow: {"observed": Count, "expected": NonNegative, "p_value": Share},
        LogRecord: {"n_rounds": Count, "n_propensities": Count, "level": Share},
    },
)


def record_of(check: "LogCheck") -> LogRecord:
    """The check with its counts as rows."""
    rows = [{str(name): value for name, value in row.items()} for row in check.counts.to_dict(orient="records")]
    plain = {item.name: getattr(check, item.name) for item in fields(check) if item.name != "counts"}
    return LogRecord(counts=tuple(CountRow(**row) for row in rows), **plain)


def write_log_check(check: "LogCheck", path: str | Path) -> None:
    """Write a check to a file, at once or not at all."""
    _RECORDS.write(_FORM, record_of(check), path)


def read_log_check(path: str | Path) -> dict[str, Any]:
    """The fields of a ``LogCheck``, its counts as a table.

    Raises
    ------
    RcbError
        A file that is not there, or is no such check; a digit that was changed.
    """
    import pandas as pd

    record: LogRecord = _RECORDS.read(_FORM, path)
    table = pd.DataFrame([asdict(row) for row in record.counts], columns=[item.name for item in fields(CountRow)])
    return {item.name: getattr(record, item.name) for item in fields(LogRecord)} | {"counts": table}
