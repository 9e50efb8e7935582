"""Markdown documents as programs: their blocks, run in order, and what they print compared with what they say."""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^(?:<!-- (?P<note>[\w-]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|-?(?<!\d)\.\d+")
RELATIVE, ABSOLUTE = 0.02, 2e-3  # what rounding and another machine may change


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its text, the first line in the document, a note in a comment above it."""

    kind: str
    text: str
    line: int
    note: str


def blocks_of(path: Path) -> list[Block]:
    """Fenced blocks in their order."""
    document = path.read_text(encoding="utf-8")
    return [
        Block(
            kind=found["kind"],
            text=found["text"],
            line=document[: found.start("text")].count("\n") + 1,
            note=found["note"] or "",
        )
        for found in _BLOCK.finditer(document)
    ]


def commands_in(block: Block) -> list[list[str]]:
    """The calls of ``rcb`` in a shell block, as lists of arguments."""
    lines = [line.split("#")[0].split() for line in block.text.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "rcb"]


def differences(said: str, printed: str) -> list[str]:
    """Where two texts differ by more than the last digits of numbers; spaces do not count."""
    ours, theirs = said.split(), printed.split()
    found = [f"{a} for {b}" for a, b in zip(ours, theirs, strict=False) if not _alike(a, b)]
    return found + ([f"{len(ours)} words for {len(theirs)}"] if len(ours) != len(theirs) else [])


def run_python(block: Block, names: dict[str, Any], *, source: Path) -> list[str]:
    """Execute a block; expressions with a literal in the comment behind them are compared with it."""
    filler = "\n" * (block.line - 1)
    tree = ast.parse(filler + block.text, filename=source.name)
    said = dict(_said(block))
    found = []
    for node in tree.body:
        if isinstance(node, ast.Expr) and node.end_lineno in said:
            value = eval(compile(ast.Expression(node.value), source.name, "eval"), names)
            expected = said[node.end_lineno]
            if not _same(expected, value):
                found.append(f"line {node.end_lineno}: {expected!r} said, {value!r} found")
        else:
            exec(compile(ast.Module([node], []), source.name, "exec"), names)
    return found


def _said(block: Block) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        comment = line.partition("  # ")[2]
        for text in (comment, comment.split(": ")[0]):
            try:
                yield number, ast.literal_eval(text)
            except (SyntaxError, ValueError):
                continue
            break


def _same(said: Any, value: Any) -> bool:
    if isinstance(said, tuple):
        return len(said) == len(value) and all(map(_same, said, value))
    if isinstance(said, dict):
        return list(said) == list(value) and all(map(_same, said.values(), value.values()))
    if isinstance(said, float):
        return math.isclose(said, float(value), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(said == value)


def _alike(one: str, other: str) -> bool:
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(numbers_in(one), numbers_in(other), strict=True)
    return all(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)


def numbers_in(text: str) -> list[float]:
    """The numbers of a text, thousands with commas included."""
    return [float(found.replace(",", "")) for found in _NUMBER.findall(text)]
