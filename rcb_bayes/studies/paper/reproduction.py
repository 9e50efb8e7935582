"""The paper's settings, run: every cell with several kinds of plans, its claims judged."""

from dataclasses import replace
from functools import partial

from rcb_bayes.files.store import open_store
from rcb_bayes.studies.paper.cells import run_cell
from rcb_bayes.studies.paper.figures import plot_setting
from rcb_bayes.studies.paper.judging import judge_setting
from rcb_bayes.studies.paper.outcome import Outcome, Request, write_outcome
from rcb_bayes.studies.paper.settings import GRID, KINDS, SETTINGS, Effort, Setting, effort_of
from rcb_bayes.studies.paper.tables import as_table
from rcb_bayes.workers import run_cells as run_cells_of

_NOTES = (
    "Gain (realised) is what the platform expects of the recommended arm beyond its best rival, averaged over users "
    "and worlds; audited is what users themselves expect by following. Judged by simultaneous 95 % intervals.",
    "Fixed plans use the theorem's rate; sampled plans have N = d samples per arm. Keeps: the share of off-best "
    "recommendations that a plan's guard leaves, 100 % without one.",
)
FAST_NOTE = "A fast run makes the plans of a full one and audits them with fewer worlds: more is inconclusive."


def run_setting(name: str, request: Request) -> Outcome:
    """One of the paper's settings."""
    return run_cells(SETTINGS[name], request)


def run_cells(setting: Setting, request: Request, *, effort: Effort | None = None) -> Outcome:
    """Every cell of a setting; finished ones are read from the folder where the run is resumed."""
    effort = effort or effort_of(n_worlds=request.n_worlds, fast=request.fast, usual=GRID)
    cells = setting.fast if request.fast else setting.cells
    parameters = {"experiment": setting.name, "n_worlds": effort.n_worlds, "fast": request.fast, "seed": request.seed}
    store = open_store(request.folder, parameters, resume=request.resume)
    made = {cell.key: partial(run_cell, cell, effort=effort, seed=request.seed) for cell in cells}
    work = {cell.key: cell.work for cell in cells}
    parts = run_cells_of(store, made, workers=request.workers, work=work.__getitem__, description=setting.name)
    outcome = Outcome(
        name=setting.name,
        title=setting.title,
        table=as_table(parts),
        keys=_keys(setting),
        claims=tuple(judge_setting(setting.name, parts)),
        notes=(*_NOTES, FAST_NOTE) if request.fast else _NOTES,
        parts=tuple(parts),
    )
    figures = {
        f"{kind}": plot_setting(
            parts, kind=kind, columns=setting.columns, lines=setting.lines, title=f"{setting.title}; {kind} plans"
        )
        for kind in KINDS
        if request.folder is not None and any(kind in cell.kinds for cell in cells)
    }
    return replace(outcome, files=write_outcome(outcome, store, figures))


def _keys(setting: Setting) -> tuple[str, ...]:
    lines = () if setting.lines == "inflation" else (setting.lines,)
    return (setting.columns, *lines)
