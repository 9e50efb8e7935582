"""The page on extensions is true: its examples run from top to bottom, and are as short as it says."""

from pathlib import Path
from typing import Any

import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.notions import NOTIONS
from tests.documents.blocks import Block, blocks_of, run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extend.md"
_MOST_LINES = 20


@pytest.fixture
def registries() -> Any:
    """What is registered by a test is forgotten after it."""
    kept: list[tuple[Any, Any]] = [(registry, dict(registry)) for registry in (rcb.posterior.ENGINES, NOTIONS)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


def python_blocks() -> list[Block]:
    return [block for block in blocks_of(PAGE) if block.kind == "python"]


@pytest.mark.usefixtures("registries")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in python_blocks():
        assert not run_python(block, names, source=PAGE)


def test_the_examples_are_short() -> None:
    for block in python_blocks():
        lines = [line for line in block.text.splitlines() if line.strip()]
        assert len(lines) <= _MOST_LINES, f"line {block.line} of {PAGE.name}: {len(lines)} lines"


def test_every_kind_of_extension_is_shown() -> None:
    titles = [
        line.removeprefix("## ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")
    ]
    assert titles == ["A belief", "A population", "An oracle", "A baseline", "An engine", "A notion"]
    assert len(python_blocks()) == len(titles) + 1  # and what they begin with
