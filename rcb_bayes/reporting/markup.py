"""HTML without a template engine: whatever is not markup already is escaped."""

import html
import json
from typing import Any

_VOID = {"meta", "link", "input", "br", "hr", "img"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. ``class_`` and ``data_x`` become ``class`` and ``data-x``; None leaves an attribute out."""
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{join(*children)}</{name}>")


def join(*children: Any) -> Markup:
    """Several pieces after one another, None left out."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def _escaped(child: Any) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def as_script(values: Any) -> Markup:
    """Values as JSON that cannot end the script element it stands in."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def table(
    head: list[str], rows: list[list[Any]], *, class_: str = "", numbers: int = 1, columns: int | None = None
) -> Markup:
    """A table that can scroll sideways; columns from ``numbers`` on are figures, set to the right.

    A number of ``columns`` is told to the style sheet.
    """

    def cell(name: str, k: int, value: Any, **more: Any) -> Markup:
        return tag(name, value, class_="n" if k >= numbers else None, **more)

    top = tag("tr", *(cell("th", k, title, scope="col") for k, title in enumerate(head)))
    body = [tag("tr", *(cell("td", k, value, data_label=head[k]) for k, value in enumerate(row))) for row in rows]
    style = None if columns is None else f"--columns:{columns}"
    whole = tag("table", tag("thead", top), tag("tbody", *body), class_=class_ or None, style=style)
    return tag("div", whole, class_="scroll")
