"""The examples in docstrings: every public name has some, and they give what they say.

An example is complete by itself, but for ``np``, or says where its names come from: what stands under
"With ``plan`` as in ``calibrate``:" is run after the examples of ``calibrate``.
"""

import doctest
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes
from tests.studies.warfarin.files import cells, write_csv

NAMES = [name for name in rcb_bayes.__all__ if name != "__version__"]
SLOW = {"reproduce", "Outcome", "Claim", "run_warfarin", "WarfarinResult"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_of(name: str, thing: Any = None) -> list[doctest.DocTest]:
    """Docstrings with examples: of a public name and, for a class, of its methods."""
    found = doctest.DocTestFinder().find(thing or getattr(rcb_bayes, name), name, globs={})
    return [test for test in found if test.examples]


def run(test: doctest.DocTest) -> dict[str, Any]:
    """The names that examples leave behind; fails, with the docstring's line, where they do not give what they say."""
    test.globs = {"np": np}
    for base in re.findall(r"as in ``(\w+)``:", (test.docstring or "").partition("Examples\n")[2]):
        test.globs |= run_first(base)
    report: list[str] = []
    found = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    if found.failed:
        pytest.fail("".join(report), pytrace=False)
    return test.globs


@cache
def run_first(name: str) -> dict[str, Any]:
    """The same for the docstring of a public name, once."""
    return run(next(test for test in examples_of(name) if test.name == name))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where examples write their files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_examples(name: str) -> None:
    found = examples_of(name)
    assert name in [test.name for test in found], f"{name} has no example in its docstring"
    for test in found:
        assert re.search(r"^ *Examples\n *--------\n", test.docstring or "", flags=re.MULTILINE), test.name
        assert not any(example.options.get(doctest.SKIP) for example in test.examples), test.name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]
)
def test_examples_give_what_they_say(name: str, folder: Path) -> None:
    if name == "load_warfarin":  # the consortium's file is not part of the project
        from rcb_bayes.studies.warfarin.synthetic import synthetic_patients

        write_csv(folder / "warfarin.csv", *cells(synthetic_patients(30)))
    for test in examples_of(name):
        run_first(name) if test.name == name else run(test)


# --- planted errors --------------------------------------------------------------------------------------------------


def wrong_output() -> None:
    """Two.

    Examples
    --------
    >>> 1 + 1
    3
    """


def wrong_digit() -> None:
    """The rate of a user, off by one in the last digit.

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> plan.rate([[0.2, 0.5], [0.9, 0.5]]).round(1)
    array([1. , 0.2])
    """


def wrong_name() -> None:
    """A name that nobody has defined.

    Examples
    --------
    >>> market.describe()
    """


def no_example() -> None:
    """Nothing to run."""


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (wrong_output, r"test_docstrings.py\", line \d+, in planted(?s:.*)Expected:\n    3\nGot:\n    2"),
        (wrong_digit, r"Expected:\n    array\(\[1. , 0.2\]\)\nGot:\n    array\(\[1. , 0.3\]\)"),
        (wrong_name, r"NameError: name 'market' is not defined"),
    ],
)
def test_a_planted_error_is_noticed(thing: Any, message: str) -> None:
    (test,) = examples_of("planted", thing)
    with pytest.raises(pytest.fail.Exception, match=message):
        run(test)


def test_a_docstring_without_examples_is_noticed() -> None:
    assert examples_of("planted", no_example) == []
