"""Pieces that sections are put together from: a chart with its words and its table, a verdict, a list of figures."""

from typing import Any

from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.telling.wording import brief

SIGNS = {"pass": "✓", "fail": "✕", "inconclusive": "?"}


def section(name: str, title: str, *children: Any) -> Markup:
    """A section with its heading, to be linked to."""
    return tag("section", tag("h2", title, id=f"h-{name}"), *children, id=name, aria_labelledby=f"h-{name}")


def prose(*sentences: Any) -> Markup:
    """A paragraph."""
    return tag("p", *sentences)


def chart(name: str, title: str, *, alt: str, note: Any = "", head: list[str], rows: list[list[Any]]) -> Markup:
    """A figure drawn by the page's script, with what it shows in words and in a table."""
    return tag(
        "figure",
        tag("figcaption", title),
        tag("div", id=f"chart-{name}", class_="chart", role="img", aria_label=alt, tabindex="0"),
        tag("p", note, class_="note") if note else None,
        tag("details", tag("summary", "The figures as a table"), table(head, rows, numbers=1)),
        class_="figure",
    )


def badge(verdict: str) -> Markup:
    """A verdict that can be told without colours."""
    return tag("span", tag("b", SIGNS[verdict], aria_hidden="true"), " ", verdict, class_=f"badge {verdict}")


def facts(rows: list[tuple[str, Any, Any]]) -> Markup:
    """Questions with their figures, and a word on each."""
    items = [
        tag("div", tag("dt", question), tag("dd", tag("strong", value), tag("span", more) if more else None))
        for question, value, more in rows
    ]
    return tag("dl", *items, class_="facts")


def parameters(rows: list[tuple[str, Any]]) -> Markup:
    """Names and values."""
    return table(["", ""], [[name, value] for name, value in rows], class_="parameters", numbers=9)


def bar(share: float, text: str) -> Markup:
    """A figure with a bar as long as the share."""
    width = f"width:{100 * min(max(share, 0.0), 1.0):.1f}%"
    return join(tag("span", text), tag("span", tag("span", style=width), class_="bar", aria_hidden="true"))


def dot(k: int, arm: str) -> Markup:
    """An arm's name with its colour."""
    return tag("span", tag("i", class_=f"dot arm-{k % 8}", aria_hidden="true"), arm, class_="arm")


def plain(value: float | None) -> str:
    """A number to three digits."""
    return "\u2013" if value is None else brief(value).replace("-", "\u2212")
