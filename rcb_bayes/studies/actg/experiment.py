"""The ACTG 175 study: beliefs checked and planned for, policies replayed on the trial, values, audits, coverage."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.store import open_store
from rcb_bayes.schema import DEFAULT_SEED, as_count, is_number, no_such, plain
from rcb_bayes.studies.actg.beliefs import BELIEFS
from rcb_bayes.studies.actg.covering import LEARNING, fixed_coverage, learning_coverage
from rcb_bayes.studies.actg.judging import Part, belief_part, fixed_part
from rcb_bayes.studies.actg.result import TABLES, ActgResult
from rcb_bayes.studies.actg.trial import Trial
from rcb_bayes.workers import Workers, run_kept

_BLOCK = 50  # halves that one task looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much work goes into the study.

    Parameters
    ----------
    n_per_arm : int
        N of the sampled plans.
    n_worlds : int
        Simulated worlds behind each stage of a plan, and behind the checks.
    audit_worlds : int
        Fresh worlds of each audit.
    n_orders : int
        Orders in which the patients come to a learning policy.
    n_rounds : int
        Patients whose average a learning policy is valued by; a replay keeps about one in four of the trial's.
    n_halves : int
        Random halves of the trial in which intervals of fixed policies are looked at.
    n_learning_halves : int
        The same of learning policies, whose replays take longer: 200 are some four minutes more of a processor.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> rcb.studies.actg.Sizes(n_halves=100).n_per_arm
    30
    """

    n_per_arm: int = 30
    n_worlds: int = 2000
    audit_worlds: int = 1000
    n_orders: int = 20
    n_rounds: int = 450
    n_halves: int = 500
    n_learning_halves: int = 0

    def checked(self) -> "Sizes":
        """The same, refused where a count is out of range."""
        least = {"n_worlds": 50, "audit_worlds": 50, "n_orders": 2, "n_rounds": 2, "n_per_arm": 1}
        return Sizes(
            **{name: as_count(value, name=name, least=least.get(name, 0)) for name, value in asdict(self).items()}
        )


FAST = Sizes(n_worlds=1000, audit_worlds=300, n_orders=10)
"""A first look."""


def run_actg(
    trial: Trial,
    *,
    beliefs: Sequence[str] = tuple(BELIEFS),
    epsilons: Sequence[float] = (0.1, 0.2),
    sizes: Sizes | None = None,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> ActgResult:
    """The study on a trial.

    Parameters
    ----------
    trial : Trial
        The patients, see ``load_actg``.
    beliefs : sequence of str
        Of "sceptical", "enthusiastic", "hierarchical" and "elicited".
    epsilons : sequence of float
        What patients put up with, in rewards: .1 is ten CD4 cells.
    sizes : Sizes, optional
        How much work goes into it.
    workers : None, int, str, Client or Executor
        Who works on the parts: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    folder : path-like, optional
        Where finished parts are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    ActgResult
        With tables ``checks``, ``plans``, ``values``, ``audits``, ``logs``, ``coverage``.

    Raises
    ------
    RcbError
        An unknown belief, no epsilon or one that is negative, counts too small; a folder of another run.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> trial = rcb.studies.load_actg("actg175.csv")
    >>> sizes = rcb.studies.actg.Sizes(
    ...     n_per_arm=5, n_worlds=50, audit_worlds=50, n_orders=2, n_rounds=20, n_halves=0, n_learning_halves=0
    ... )
    >>> result = rcb.studies.run_actg(trial, beliefs=["sceptical"], epsilons=[0.2], sizes=sizes)
    >>> result.values["policy"].unique().tolist()[:5]
    ['always zdv', 'always zdv_ddi', 'always zdv_ddc', 'always ddi', 'uniform']
    """
    sizes = (sizes or Sizes()).checked()
    for belief in beliefs:
        if belief not in BELIEFS:
            raise no_such("belief", belief, BELIEFS, told="Use some of")
    wanted = tuple(sorted({float(value) for value in epsilons if is_number(value) and value >= 0}))
    if not beliefs or not wanted or len(wanted) != len(list(epsilons)):
        raise RcbError(f"Expected a belief or more, and different epsilons of at least 0, got {list(epsilons)}.")
    seed = as_count(seed, name="seed")
    asked = {"trial": trial.describe(), "beliefs": list(beliefs), "epsilons": list(wanted), "seed": seed}
    parts = run_kept(
        open_store(
            None if folder is None else Path(folder), {"experiment": "actg", **asked, **asdict(sizes)}, resume=None
        ),
        {f"{key}.json": (key, *task) for key, task in _tasks(list(beliefs), sizes).items()},
        function=partial(_run_part, epsilons=wanted, sizes=sizes, seed=seed),
        make=partial(_same, trial),
        save=lambda task, part, path: _write(task[0], part, path),
        load=lambda task, path: _read(task[0], path),
        workers=workers,
        description="actg",
    )
    return ActgResult.of_parts(parts, trial=trial.describe(), asked=asked | {"outcome": trial.outcome} | asdict(sizes))


# --- tasks, each of which can run in a process of its own ------------------------------------------------------------

Task = tuple[str, str, int, int]
"""The key of its file, what it is, and a range of halves, or the position of a belief."""


def _tasks(beliefs: list[str], sizes: Sizes) -> dict[str, tuple[str, int, int]]:
    found: dict[str, tuple[str, int, int]] = {f"belief-{name}": (name, 0, 0) for name in beliefs}
    if sizes.n_learning_halves:  # of one policy together, for the value over all patients takes many orders, too
        found |= {f"learning-{name}": (f"learning {name}", 0, sizes.n_learning_halves) for name in LEARNING}
    for start in range(0, sizes.n_halves, _BLOCK):
        found[f"halves-{start}"] = ("halves", start, min(sizes.n_halves, start + _BLOCK))
    return found | {"fixed": ("fixed", 0, 0)}


def _same(trial: Trial) -> Trial:
    return trial


def _run_part(trial: Trial, task: Task, *, epsilons: tuple[float, ...], sizes: Sizes, seed: int) -> Part:
    _, kind, start, stop = task
    if kind == "fixed":
        return fixed_part(trial, seed=seed)
    if kind == "halves":
        return fixed_coverage(trial, start, stop, seed=seed)
    if kind.startswith("learning "):
        return learning_coverage(trial, start, stop, names=(kind.removeprefix("learning "),), seed=seed)
    return belief_part(
        trial,
        kind,
        epsilons=epsilons,
        n_per_arm=sizes.n_per_arm,
        n_worlds=sizes.n_worlds,
        audit_worlds=sizes.audit_worlds,
        n_orders=sizes.n_orders,
        n_rounds=sizes.n_rounds,
        seed=seed,
    )


def _form(key: str) -> Format:
    return Format(name=f"actg part {key}", version=1, remedy="Delete the file to have the part computed anew.")


def _write(key: str, part: Part, path: Path) -> None:
    write_atomically(path, as_text(_form(key), {"rows": json.loads(json.dumps(plain(part)))}).encode("utf-8"))


def _read(key: str, path: Path) -> Part:
    rows = content_of(_form(key), read_text(_form(key), path), where=path).get("rows")
    if not isinstance(rows, dict) or not set(rows) <= set(TABLES):
        raise refused(_form(key), path, "it has other tables than the study's")
    return rows
