"""The glossary: one text for messages, pages and the documentation."""

from pathlib import Path

import pytest

from rcb_bayes.cli import app
from rcb_bayes.reporting.vocabulary import vocabulary
from rcb_bayes.telling.glossary import glossary

ROOT = Path(__file__).resolve().parents[2]
ASKED = (
    *("arm", "belief", "saturated", "promoted arm", "organic arm", "stage", "knowledge", "notion", "guard", "margin"),
    *("world", "verdict", "panel"),
)


def test_the_package_has_the_documentation_s_text() -> None:
    shipped = (ROOT / "rcb_bayes" / "telling" / "glossary.md").read_text(encoding="utf-8")
    assert shipped == (ROOT / "docs" / "explanation" / "glossary.md").read_text(encoding="utf-8")
    assert shipped.count("\n: ") == len(glossary())  # every entry is read


def test_words_that_messages_use_are_in_it() -> None:
    known = glossary()
    assert set(ASKED) <= set(known)
    assert all(text[0].isupper() and text.endswith(".") and "\n" not in text for text in known.values())


def test_a_word_is_told_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["words", "Satur"]) == 0
    assert capsys.readouterr().out == "saturated\n   Of an arm: it has its N samples.\n"
    assert app.run(["words", "q"]) == 0
    assert capsys.readouterr().out.startswith("exploration rate, q\n")
    assert app.run(["words"]) == 0
    assert capsys.readouterr().out.count("\n   ") >= len(glossary())
    assert app.run(["words", "guart"]) == 2
    assert "no word 'guart' in the glossary. Did you mean 'guard'?" in capsys.readouterr().err


def test_the_page_has_it() -> None:
    page = str(vocabulary())
    assert "<summary>The glossary</summary>" in page
    assert "Of an arm: it has its N samples." in page
