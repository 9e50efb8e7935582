"""Dataclasses as JSON and back: the schema is derived from their annotations, ranges are added by name.

Every field must be there and none besides; a new field needs no more than its annotation in the dataclass. Numbers may
be NaN or infinite, written as words, unless a range says otherwise.
"""

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.errors import RcbError
from rcb_bayes.files.encoding import Number, Packed, number, packed, unpacked
from rcb_bayes.files.envelope import Format, as_text, content_of, read_text, refused, write_atomically

Text = Annotated[str, Meta(max_length=1_000_000)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

LARGEST = 1e60
"""Of what enters a computation: fourth powers of it are numbers still."""
NonNegative = Annotated[float, Meta(ge=0.0, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0.0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0.0, le=1.0 + 1e-9)]
"""In [0, 1], up to the rounding of a weighted mean."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""At most what a float tells apart from its neighbours."""
Error = NonNegative | Literal["nan", "inf"]
"""A Monte Carlo error: not negative; not known, or without bound, where the estimate is."""

Hooks = dict[type, Callable[[Any], Any]]


class Records:
    """Dataclasses that refer to each other, as files have them.

    Parameters
    ----------
    root : the dataclass of the whole
    ranges : of each dataclass, wire types of fields that say more than the annotation
    custom : wire types of classes that are written and read by hooks of their own
    """

    def __init__(
        self, root: type, *, ranges: dict[type, dict[str, Any]] | None = None, custom: dict[type, Any] | None = None
    ) -> None:
        self.root = root
        self._ranges = ranges or {}
        self._custom = custom or {}
        self._structs: dict[type, type[msgspec.Struct]] = {}
        self._classes: dict[type, type] = {}

    @cached_property
    def schema(self) -> type[msgspec.Struct]:
        """The wire type of the root."""
        return self._struct(self.root)

    def to_wire(self, value: Any, hooks: Hooks | None = None) -> Any:
        """A value as JSON has it; ``hooks`` write the custom classes."""
        own = hooks or {}
        assert self.schema  # derived first: it knows which records say what they are
        if type(value) in own:
            return own[type(value)](value)
        if is_dataclass(value) and not isinstance(value, type):
            inner = {item.name: self.to_wire(getattr(value, item.name), own) for item in fields(value)}
            struct = self._struct(type(value))
            tag = struct.__struct_config__.tag
            return inner if tag is None else {"type": tag, **inner}
        if isinstance(value, np.ndarray):
            return packed(value, "f8" if value.dtype.kind == "f" else "i8")
        if isinstance(value, np.generic):
            return self.to_wire(value.item(), own)
        if isinstance(value, float):
            return number(value)
        if isinstance(value, tuple | list):
            return [self.to_wire(part, own) for part in value]
        if isinstance(value, dict):
            return {str(name): self.to_wire(part, own) for name, part in value.items()}
        return value

    def checked(self, wire: Any) -> msgspec.Struct:
        """What JSON gave, as structs, if types and ranges are right.

        Raises
        ------
        msgspec.ValidationError
            Names what was expected, what came and where.
        """
        return msgspec.convert(wire, self.schema, strict=True)

    def from_wire(self, struct: msgspec.Struct, hooks: Hooks | None = None) -> Any:
        """The dataclass again; ``hooks`` read the custom classes."""
        return self._built(struct, self._classes[type(struct)], hooks or {})

    def write(self, form: Format, value: Any, path: str | Path) -> None:
        """Write the root to a JSON file of its own, at once or not at all."""
        write_atomically(path, (as_text(form, self.to_wire(value)) + "\n").encode("utf-8"))

    def read(self, form: Format, path: str | Path) -> Any:
        """What ``write`` wrote.

        Raises
        ------
        RcbError
            A file that is not there, of another format or version; a digit that was changed; types or ranges that are
            not right.
        """
        content = content_of(form, read_text(form, path), where=path)
        try:
            return self.from_wire(self.checked(content))
        except (msgspec.ValidationError, RcbError) as error:
            raise refused(form, path, error) from None

    # --- types ---

    def _struct(self, cls: type, *, tagged: bool = False) -> type[msgspec.Struct]:
        if cls not in self._structs:
            hints = get_type_hints(cls, include_extras=True)
            ranges = self._ranges.get(cls, {})
            wanted = [(item.name, ranges.get(item.name) or self._wire(hints[item.name])) for item in fields(cls)]
            self._structs[cls] = msgspec.defstruct(
                cls.__name__, wanted, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=tagged or None
            )
            self._classes[self._structs[cls]] = cls
        return self._structs[cls]

    def _wire(self, hint: Any) -> Any:
        """The type in a file of an annotation."""
        if hint in self._custom:
            return self._custom[hint]
        if isinstance(hint, type) and is_dataclass(hint):
            return self._struct(hint)
        plain = {float: Number, int: Whole, str: Text, np.ndarray: Packed}
        if hint in plain:
            return plain[hint]
        origin, inner = get_origin(hint), get_args(hint)
        alias = getattr(origin, "__value__", origin)  # NumPy's own names of arrays are aliases, from some version on
        if np.ndarray in (origin, get_origin(alias)):
            return Packed
        if origin in (Union, types.UnionType):
            records = [part for part in inner if isinstance(part, type) and is_dataclass(part)]
            for part in records:  # one of several says which it is
                self._struct(part, tagged=len(records) > 1)
            return reduce(or_, [self._wire(part) for part in inner])
        if origin is tuple:
            return tuple[tuple(part if part is Ellipsis else self._wire(part) for part in inner)]
        if origin in (list, dict):
            generic: Any = origin
            return generic[tuple(self._wire(part) for part in inner)]
        return hint  # bool, None, Literal, and whatever msgspec knows

    # --- values ---

    def _built(self, value: Any, hint: Any, hooks: Hooks) -> Any:
        if isinstance(value, Packed):
            return unpacked(value)
        if isinstance(value, msgspec.Struct):
            cls = self._classes.get(type(value))
            if cls is None:
                return hooks[type(value)](value)
            hints = get_type_hints(cls)
            return cls(
                **{item.name: self._built(getattr(value, item.name), hints[item.name], hooks) for item in fields(cls)}
            )
        if isinstance(value, tuple | list):
            inner = [part for part in get_args(hint) if part is not Ellipsis]
            made = [self._built(part, inner[0] if inner else Any, hooks) for part in value]
            return tuple(made) if isinstance(value, tuple) else made
        if isinstance(value, dict):
            inner = get_args(hint)
            return {name: self._built(part, inner[1] if inner else Any, hooks) for name, part in value.items()}
        if isinstance(value, str | int) and not isinstance(value, bool) and float in (hint, *get_args(hint)):
            return float(value) if isinstance(value, int) or value in ("nan", "inf", "-inf") else value
        return value
