"""A plan looked at and condensed, scene by scene, by as many workers as there are.

Three kinds of work make an audit, and each goes out in pieces whose size depends on the question alone:

- worlds are drawn and fitted in blocks with streams of their own (``drawing``); what is expected in them comes back;
- the worst users of a scene are looked for in worlds of their own;
- what users see is condensed to moments of their cells, all worlds and some users at a time. Moments over worlds are
  never cut in pieces, and cells of other users are other cells: there is nothing to add up, and no last bit to lose.

A scene of moderate size is looked at and condensed in one piece. Of a large one, the bootstrap behind its bands comes
after the moments: only the cells in doubt go into it, and these are known when all moments are. Its replicates keep the
largest error of any cell, and the largest of some users' and of others' is the largest of all. Large scenes go out
together, as many as there is room for: workers wait for one another at their end only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rcb_bayes.auditing.condensing import Cells, Seen, condensed, deviations, together
from rcb_bayes.auditing.drawing import Drawn, OutlookParts, Source, as_dataset, as_drawn, draw, joined, n_values
from rcb_bayes.auditing.judging import folded, seen_view
from rcb_bayes.auditing.plan_run import PlanRun, begin_run
from rcb_bayes.auditing.plan_views import JUDGED, Looking, Scene, Worlds, first_views, scenes, unfinished, worlds_of
from rcb_bayes.auditing.search import SEARCH_WORLDS
from rcb_bayes.auditing.view import Asked, Looked
from rcb_bayes.files.store import Store, part_file, part_format, read_part, write_part
from rcb_bayes.market import Market
from rcb_bayes.mechanism.bands import Reach, largest_of, tried_cells
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS, Notion
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray
from rcb_bayes.workers import Tally, Workers, one_thread, run_kept, run_tasks

_WHOLE = 8_000_000  # chances of users, arms and worlds up to which a scene is looked at in one piece
_PIECE = 2_000_000  # and of a piece, where it is not; a dozen arrays of them are there at a time
_KEPT_VALUES = 32_000_000  # of worlds that wait to be looked at, or of cells that wait for others, 256 MB
_UNIT = 4  # blocks of worlds that are drawn together, of many
_MANY_BLOCKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who does the work, where what is finished is kept, and what it took."""

    make: Callable[[], PlanRun]
    workers: Workers
    store: Store
    tally: Tally


def seen_plan(
    market: Market,
    plan: Plan,
    asked: Asked,
    *,
    horizon: int,
    options: Exploiting,
    notions: tuple[Notion, ...] | None = None,
    workers: Workers = None,
    store: Store | None = None,
    tally: Tally | None = None,
) -> Looked:
    """The first phase, and every scene that runs get to before the horizon often enough, condensed.

    Parameters
    ----------
    notions : under which they are judged; all unless given
    workers : see ``rcb_bayes.workers``
    store : where worlds that were drawn are kept, to go on from
    tally : of tasks, filled in on the way
    """
    wanted = tuple(NOTIONS.values()) if notions is None else notions
    make = partial(begin_run, market, plan, asked, horizon=horizon, options=options)
    with one_thread():
        run = make()
    here = _Made(run)
    crew = Crew(
        make=partial(make, walked=run.walk) if workers not in (None, 1) else here,
        workers=workers,
        store=store or Store(folder=None),
        tally=tally or Tally(),
    )
    views = [seen_view(view, asked, notions=wanted) for view in first_views(run)]
    counts = np.zeros(2, dtype=np.int64)
    for group in _groups(run):
        known = _drawn(crew, run, group)
        counts += sum((drawn["counts"].sum(axis=0) for drawn in known.values()), np.zeros(2, dtype=np.int64))
        views += _seen(crew, run, [(scene, worlds_of(run, scene, known)) for scene in group], wanted)
    return Looked(
        crowd=run.crowd,
        views=views,
        notes=unfinished(run),
        n_posteriors=int(counts[0]),
        n_not_vouched=int(counts[1]),
    )


class _Made:
    """What is made already, where this process does the work."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run

    def __call__(self) -> PlanRun:
        return self._run


def _groups(run: PlanRun) -> Iterator[list[Scene]]:
    """Scenes whose worlds fit together; those that share worlds are never parted."""
    group: list[Scene] = []
    for scene in scenes(run):
        theirs = {source: None for one in group for source in one.sources}
        values = sum(n_values(run, source) for source in {*theirs, *scene.sources})
        if group and scene.sources[0] not in theirs and values > _KEPT_VALUES:
            yield group
            group = []
        group.append(scene)
    if group:
        yield group


# --- worlds ----------------------------------------------------------------------------------------------------------


def _drawn(crew: Crew, run: PlanRun, group: Sequence[Scene]) -> dict[str, Drawn]:
    """The worlds that some scenes rest on, by source."""
    sources = {source.name: source for scene in group for source in scene.sources}
    tasks: dict[str, tuple[Source, range]] = {}
    for source in sources.values():
        n = source.n_blocks(run)
        step = _UNIT if n > _MANY_BLOCKS else 1
        for start in range(0, n, step):
            tasks[part_file(f"{source.name}-{start}")] = (source, range(start, min(start + step, n)))
    found = run_kept(
        crew.store,
        tasks,
        function=_draw,
        make=crew.make,
        save=_save,
        load=_load,
        workers=crew.workers,
        description="worlds",
        tally=crew.tally,
    )
    parts: dict[str, list[Drawn]] = {}
    for (source, _), part in zip(tasks.values(), found, strict=True):
        parts.setdefault(source.name, []).append(part)
    return {name: joined(own) for name, own in parts.items()}


def _draw(run: PlanRun, task: tuple[Source, range]) -> Drawn:
    source, blocks = task
    return joined([draw(run, (source, block)) for block in blocks])


def _key(task: tuple[Source, range]) -> str:
    return f"{task[0].name}-{task[1].start}"


def _save(task: tuple[Source, range], drawn: Drawn, path: Path) -> None:
    write_part(part_format(_key(task)), as_dataset(drawn), path)


def _load(task: tuple[Source, range], path: Path) -> Drawn:
    return as_drawn(read_part(part_format(_key(task)), path))


# --- users -----------------------------------------------------------------------------------------------------------


def _seen(crew: Crew, run: PlanRun, group: Sequence[tuple[Scene, Worlds]], wanted: tuple[Notion, ...]) -> list[Seen]:
    """Scenes condensed: each in one piece, or some users at a time."""
    n_users = run.crowd.judged.n_users + _WORST
    whole = [n_users * _each(run, worlds) <= _WHOLE for _, worlds in group]
    tasks = [
        (scene, worlds if at_once else _searched(worlds), at_once)
        for (scene, worlds), at_once in zip(group, whole, strict=True)
    ]
    function = partial(_looked_at, wanted)
    how = _how(crew)
    first = dict(run_tasks(function, tasks, **how))
    parts = [first[number] for number in range(len(group))]
    large = [Given(*of, part) for of, part in zip(group, parts, strict=True) if not isinstance(part, Seen)]
    pieced = iter([seen for some in _that_fit(run, large, wanted) for seen in _in_parts(crew, run, some, wanted)])
    return [part if isinstance(part, Seen) else next(pieced) for part in parts]


def _how(crew: Crew) -> dict[str, Any]:
    """How users' looks are handed out."""
    return {"make": crew.make, "workers": crew.workers, "description": "users", "tally": crew.tally}


_WORST = 20  # users that a search adds to the crowd


def _each(run: PlanRun, worlds: Worlds) -> int:
    """Chances of a user."""
    return run.market.n_arms * sum(max(len(drawn["users"]) - SEARCH_WORLDS, 0) for drawn in worlds.values())


def _searched(worlds: Worlds) -> Worlds:
    """The worlds that the worst users are looked for in."""
    return {name: {part: values[:SEARCH_WORLDS] for part, values in drawn.items()} for name, drawn in worlds.items()}


def _looked_at(wanted: tuple[Notion, ...], run: PlanRun, task: tuple[Scene, Worlds, bool]) -> Seen | FloatArray:
    """A scene condensed, or the users who are to look at it."""
    scene, worlds, at_once = task
    looking = Looking(run, scene, worlds)
    users = looking.users()
    return seen_view(looking.judged(users), run.asked, notions=wanted) if at_once else users


class Given:
    """A large scene, its worlds, and the users who look at it; what is known of the worlds stays where it is."""

    def __init__(self, scene: Scene, worlds: Worlds, users: FloatArray) -> None:
        self.scene, self.worlds, self.users = scene, worlds, users
        self.outlooks: dict[str, OutlookParts] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Given, (self.scene, self.worlds, self.users)

    def looking(self, run: PlanRun) -> Looking:
        """Somebody who looks at it."""
        return Looking(run, self.scene, self.worlds, outlooks=self.outlooks)


def _that_fit(run: PlanRun, large: Sequence[Given], wanted: tuple[Notion, ...]) -> Iterator[list[Given]]:
    """Large scenes, as many at a time as their cells fit."""
    most = max((len(given.users) for given in large), default=0) * run.market.n_arms**2 * _PER_CELL * len(wanted)
    step = max(1, _KEPT_VALUES // max(1, most))
    yield from (list(large[start : start + step]) for start in range(0, len(large), step))


_PER_CELL = 8  # numbers that are kept of a cell until its scene is folded


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a large scene: some of its users, or all of them on average, or cells of some in doubt."""

    scene: int
    users: slice | None
    notions: tuple[Notion, ...]
    cells: np.ndarray | None = None


def _in_parts(crew: Crew, run: PlanRun, large: Sequence[Given], wanted: tuple[Notion, ...]) -> list[Seen]:
    """Large scenes, some users at a time; then the bootstrap of their cells in doubt."""
    by_user = tuple(notion for notion in wanted if notion.is_per_user)
    averaged = tuple(notion for notion in wanted if not notion.is_per_user)
    pieces: list[Piece] = []
    for number, given in enumerate(large):
        pieces += [Piece(number, None, (notion,)) for notion in averaged]  # they take longest
        pieces += [Piece(number, some, by_user) for some in _some_users(run, given) if by_user]
    how: dict[str, Any] = _how(crew) | {"given": lambda piece: large[piece.scene]}
    done: dict[int, list[tuple[Piece, Seen]]] = {}
    for number, seen in sorted(run_tasks(_part_of, pieces, **how)):
        done.setdefault(pieces[number].scene, []).append((pieces[number], seen))
    cells = [_cells_of(done[number], wanted) for number in range(len(large))]
    doubtful: list[Piece] = []
    for number, own in enumerate(cells):
        users = [piece.users for piece, _ in done[number] if piece.users is not None]
        doubtful += [piece for notion in by_user for piece in _in_doubt(number, own, notion, users)]
    for number, largest in run_tasks(_largest, doubtful, **how) if doubtful else ():
        own, name = cells[doubtful[number].scene], doubtful[number].notions[0].name
        reach = own[name].reach
        most = np.maximum(reach.largest, largest) if len(reach.largest) else largest
        own[name] = replace(own[name], reach=replace(reach, largest=most))
    return [
        folded(replace(done[number][0][1], n_users=len(given.users), cells=dict(cells[number])), run.asked)
        for number, given in enumerate(large)
    ]


def _some_users(run: PlanRun, given: Given) -> list[slice]:
    step = max(1, _PIECE // _each(run, given.worlds))
    return [slice(start, min(start + step, len(given.users))) for start in range(0, len(given.users), step)]


def _cells_of(pieces: Sequence[tuple[Piece, Seen]], wanted: tuple[Notion, ...]) -> dict[str, Cells]:
    """The cells of a scene under each notion, from those of its pieces."""
    found: dict[str, Cells] = {}
    for notion in wanted:
        parts = [seen.cells[notion.name] for piece, seen in pieces if notion in piece.notions]
        own = [part for part in parts if isinstance(part, Cells)]
        assert len(own) == len(parts)  # not folded yet
        found[notion.name] = together(own) if notion.is_per_user else own[0]
    return found


def _in_doubt(scene: int, cells: dict[str, Cells], notion: Notion, parts: Sequence[slice]) -> list[Piece]:
    """The cells that a notion's bootstrap is over, by the users whose they are; how far it has to reach is noted."""
    own = cells[notion.name]
    places, limit = tried_cells(own.estimate, own.error, is_thin=own.is_thin, holds=own.evidence.always_holds)
    cells[notion.name] = replace(own, reach=Reach(largest=np.zeros(0), limit=limit))
    at = own.at[places]
    user = at // (own.shape[1] * own.shape[2])
    found = [Piece(scene, some, (notion,), at[(user >= some.start) & (user < some.stop)]) for some in parts]
    return [piece for piece in found if piece.cells is not None and len(piece.cells)]


def _part_of(run: PlanRun, piece: Piece, given: Given) -> Seen:
    """What some of the users see, or all of them on average, condensed."""
    looking, users = given.looking(run), given.users
    if piece.users is None:
        view = replace(looking.view_of(users[:1], JUDGED), averages=looking.averages())
        return condensed(view, run.asked, notions=piece.notions)
    return condensed(looking.view_of(users[piece.users], JUDGED), run.asked, notions=piece.notions, is_whole=False)


def _largest(run: PlanRun, piece: Piece, given: Given) -> FloatArray:
    """The largest error of some users' cells in each replicate of the bootstrap."""
    (notion,), some, at = piece.notions, piece.users, piece.cells
    assert some is not None
    assert at is not None
    k = run.market.n_arms
    user, cell = np.divmod(at, k * k)
    own, place = np.unique(user, return_inverse=True)
    # Users are looked at beside the same others as before: a product of other shapes may have other last bits.
    view = given.looking(run).view_of(given.users[some], JUDGED).of_users(own - some.start).counted()
    at = place * (k * k) + cell
    return largest_of(
        np.arange(len(at)),
        lambda places: deviations(view, at[places], notion, run.asked.epsilon),
        n_worlds=view.n_worlds,
    )
