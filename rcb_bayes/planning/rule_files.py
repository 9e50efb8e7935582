"""Rules as files: plain JSON that other programs can evaluate, refused on reading unless they could have been made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.records import LARGEST, Count, NonNegative, Share, Text
from rcb_bayes.mechanism.knowledge import STAGE, as_knowledge
from rcb_bayes.planning.leaves import Cuts, Hopes, LeafTable, Leaves, table_faults
from rcb_bayes.planning.rule import Kept, Rule

FORM = Format(
    name="rule",
    version=3,
    remedy="Restore the file, or distil the plan again: `rule.save(path)` and `rcb distil` write one.",
)

_Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
_Way = Annotated[int, Meta(ge=-(10**6), le=10**6)]
_Labels = tuple[Text, ...]
_SAME = ("of_plan", "arms", "features", "alike", "epsilon", "notion", "knows")
_SAME += ("max_leaves", "n_users", "seed", "course")
"""Fields that a rule and its file have alike."""


class _Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    weights: tuple[tuple[_Number, ...], ...]
    thresholds: tuple[_Number, ...]
    below: tuple[_Way, ...]
    above: tuple[_Way, ...]


_Rows = tuple[tuple[_Number, ...], ...]


class _Hopes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    means: _Rows
    arms: tuple[tuple[Count, ...], ...]
    width: NonNegative


class _Cuts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    hopes: _Hopes
    groups: tuple[Count, ...]
    weights: tuple[_Rows, ...]
    thresholds: _Rows
    above: tuple[tuple[Share, ...], ...]


class _Rates(_Tree, frozen=True, forbid_unknown_fields=True, kw_only=True):
    stages: tuple[_Labels, ...]
    levels: tuple[Count, ...]
    shares: tuple[Share, ...]
    promoted_by: _Rows | None
    values: tuple[tuple[Share, ...], ...]
    cuts: _Cuts | None


class _Guards(_Tree, frozen=True, forbid_unknown_fields=True, kw_only=True):
    values: tuple[tuple[tuple[Share, ...], ...], ...]
    cuts: _Cuts | None


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rates: Share
    rates_mcse: NonNegative
    guards: Share
    guards_mcse: NonNegative
    exceeded: Share
    exceeded_by: Share
    exceeded_mcse: NonNegative
    exceeded_upper: Share
    stages: tuple[Share, ...]
    stages_mcse: tuple[NonNegative, ...]
    length: NonNegative
    length_mcse: NonNegative
    length_of_plan: NonNegative
    stuck: Share


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    of_plan: Text
    arms: _Labels
    features: _Labels
    alike: tuple[_Labels, ...]
    epsilon: NonNegative
    notion: Text
    knows: Text
    rates: _Rates
    guards: _Guards | None
    table: tuple[tuple[_Number, ...], ...] | None
    kept: _Kept
    max_leaves: Count
    n_users: Count
    seed: Count
    course: Annotated[tuple[tuple[Count, Share], ...], Meta(min_length=1)]


# --- writing ---------------------------------------------------------------------------------------------------------


def rule_text(rule: Rule) -> str:
    """The rule as JSON text."""
    return as_text(FORM, _wire(rule))


def write_rule(rule: Rule, path: str | Path) -> None:
    """Write the rule to a file, at once or not at all."""
    write_atomically(path, rule_text(rule).encode("utf-8"))


def _wire(rule: Rule) -> dict[str, Any]:
    k = len(rule.arms)
    guards = None
    if rule.guards is not None:
        values = rule.guards.values.reshape(-1, rule.n_epochs, k).tolist()
        guards = {**_tree(rule.guards.leaves), "values": values, "cuts": _cuts(rule.guards.cuts)}
    content = _Rule(
        **{name: getattr(rule, name) for name in _SAME},
        rates={  # type: ignore[arg-type]
            "stages": rule.stages,
            "levels": rule.levels,
            "shares": rule.shares,
            "promoted_by": None if rule.promoted_by is None else rule.promoted_by.tolist(),
            **_tree(rule.rates.leaves),
            "values": rule.rates.values.tolist(),
            "cuts": _cuts(rule.rates.cuts),
        },
        guards=guards,  # type: ignore[arg-type]
        table=None if rule.table is None else rule.table.tolist(),
        kept=_Kept(**{name: getattr(rule.shares_kept, name) for name in _Kept.__struct_fields__}),
    )
    return msgspec.to_builtins(content)


def _tree(leaves: Leaves) -> dict[str, Any]:
    return {name: getattr(leaves, name).tolist() for name in _Tree.__struct_fields__}


def _cuts(cuts: Cuts | None) -> dict[str, Any] | None:
    if cuts is None:
        return None
    hopes = {"means": cuts.hopes.means.tolist(), "arms": cuts.hopes.arms.tolist(), "width": cuts.hopes.width}
    own = {name: getattr(cuts, name).tolist() for name in _Cuts.__struct_fields__ if name != "hopes"}
    return {"hopes": hopes, **own}


# --- reading ---------------------------------------------------------------------------------------------------------


def rule_of_text(text: str, *, where: str | Path = "this text") -> Rule:
    """The rule of a JSON text; RcbError where it is none."""
    content = content_of(FORM, text, where=where)
    try:
        return _rule(msgspec.convert(content, _Rule, strict=True))
    except (msgspec.ValidationError, RcbError) as error:
        raise refused(FORM, where, error) from None


def read_rule(path: str | Path) -> Rule:
    """The rule of a file; RcbError where it is none."""
    return rule_of_text(read_text(FORM, path), where=path)


def _rule(found: _Rule) -> Rule:
    k, d = len(found.arms), len(found.features)
    guards = None
    if found.guards is not None:
        values = _array(found.guards.values, ndim=3, name="factors")
        if values.shape[1] < 1 or values.shape[2] != k:
            raise RcbError(f"a leaf has factors for every epoch and each of {k} arms")
        guards = _table(found.guards, values.reshape(len(values), -1), d)
    rates = _table(found.rates, _array(found.rates.values, ndim=2, name="rates"), d)
    rule = Rule(
        **{name: getattr(found, name) for name in _SAME},
        stages=found.rates.stages,
        levels=found.rates.levels,
        promoted_by=None
        if found.rates.promoted_by is None
        else _array(found.rates.promoted_by, ndim=2, name="expectations"),
        shares=found.rates.shares,
        rates=rates,
        guards=guards,
        table=None if found.table is None else _array(found.table, ndim=2, name="table"),
        shares_kept=Kept(**{name: getattr(found.kept, name) for name in _Kept.__struct_fields__}),
    )
    for fault in _faults(rule):
        raise RcbError(fault)
    return rule


def _table(found: _Rates | _Guards, values: np.ndarray, d: int) -> LeafTable:
    cuts = None
    if found.cuts is not None:
        hopes = found.cuts.hopes
        cuts = Cuts(
            hopes=Hopes(
                means=_array(hopes.means, ndim=2, name="prior means"),
                arms=_array(hopes.arms, ndim=2, name="arms of groups").astype(np.int64),
                width=hopes.width,
            ),
            groups=np.array(found.cuts.groups, dtype=np.int64),
            weights=_array(found.cuts.weights, ndim=3, name="weights of cuts"),
            thresholds=_array(found.cuts.thresholds, ndim=2, name="thresholds of cuts"),
            above=_array(found.cuts.above, ndim=2, name="values above cuts"),
        )
    return LeafTable(leaves=_leaves(found, d), values=values, cuts=cuts)


def _leaves(found: _Tree, d: int) -> Leaves:
    s = len(found.thresholds)
    weights = _array(found.weights, ndim=2, name="weights") if s else np.zeros((0, d))
    return Leaves(
        weights=weights,
        thresholds=np.array(found.thresholds, dtype=float),
        below=np.array(found.below, dtype=np.int64),
        above=np.array(found.above, dtype=np.int64),
    )


def _array(rows: Any, *, ndim: int, name: str) -> np.ndarray:
    try:
        found = np.array(rows, dtype=float)
    except ValueError:
        found = np.zeros(0)
    if found.ndim != ndim:
        raise RcbError(f"{name} are rows of one and the same length")
    return found


def _faults(rule: Rule) -> Iterator[str]:
    k, d = len(rule.arms), len(rule.features)
    if k < 2 or len(set(rule.arms)) != k or not d or len(set(rule.features)) != d:
        yield "it needs two arms at least and features, with labels that differ"
    if sorted(arm for arms in rule.alike for arm in arms) != sorted(rule.arms):
        yield "classes of arms that are alike have each arm once"
    as_knowledge(rule.knows)
    stages = rule.stages
    parts = stages or rule.levels
    if len(rule.shares) != len(parts) or (parts and not sum(rule.shares) > 0.0):
        yield "each stage has the share of cold starts that pass it"
    own = rule.shares_kept
    if (
        len(own.stages) != len(own.stages_mcse)
        or len(own.stages) not in (0, len(parts))
        or (own.length and not own.stages)
    ):
        yield "each stage has the share that is kept of its length"
    if len(set(parts)) != len(parts):
        yield "a stage stands there twice"
    if any(stage != tuple(arm for arm in rule.arms if arm in stage) or not 0 < len(stage) < k for stage in stages):
        yield "a stage has some of the arms saturated, in their order"
    yield from _level_faults(rule)
    n_values = len(rule.levels) * k if rule.levels else max(len(stages), 1)
    yield from table_faults(rule.rates, n_features=d, n_values=n_values)
    if rule.guards is not None:
        yield from table_faults(rule.guards, n_features=d, n_values=rule.n_epochs * k)
    if rule.table is not None and rule.table.shape[1] != d:
        yield f"users of its table have {d} features"


def _level_faults(rule: Rule) -> Iterator[str]:
    k, d = len(rule.arms), len(rule.features)
    if not rule.levels:
        if rule.promoted_by is not None:
            yield "arms are promoted by expectations where stages count arms only"
        return
    if rule.knows == STAGE.name or rule.stages or not all(0 < level < k for level in rule.levels):
        yield f"its stages are not what users know ({rule.knows})"
    shape = (k, d) if rule.table is None else (len(rule.table), k)
    if rule.promoted_by is None or rule.promoted_by.shape != shape or not np.isfinite(rule.promoted_by).all():
        yield f"arms are promoted by expectations of shape {shape}"
