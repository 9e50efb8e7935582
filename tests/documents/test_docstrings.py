"""Docstrings of public names: numpydoc, every parameter with its type, and examples that give what they say.

An example is complete by itself, but for ``np``, or says where its names come from: what stands under
"With ``plan`` as in ``calibrate``:" is run after the examples of ``calibrate``.
"""

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes
from tests.studies.actg.files import write_table
from tests.studies.warfarin.files import cells, write_csv

ROOMS = ("baselines", "errors", "plots", "posterior", "studies", "users")
SLOW = {"reproduce", "Outcome", "Claim", "run_warfarin", "WarfarinResult", "run_actg", "ActgResult"}
# What most people do not call themselves, or what has nothing to show: described, without examples.
WITHOUT_EXAMPLES = {
    *("Covariates", "Engine", "Oracle", "Policy", "PosteriorBatch", "WeakDirections"),
    *("ContinuousLaw", "NormalLaw", "SampledLaw", "hidden_inverse_rate", "repeated_rate", "warm_start_samples"),
    *("estimate_hidden_rate", "estimate_repeated_rate", "estimate_separations", "kremer_thresholds"),
    *("BeliefError", "BeliefWarning", "DataError", "DiagnosticWarning", "MarketError", "ModelFileError"),
    "WorkersError",
}

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> dict[str, Any]:
    """Functions and classes at the top and in the rooms, by name; one that is in both places once."""
    places = [rcb_bayes, *(getattr(rcb_bayes, room) for room in ROOMS)]
    return {name: thing for place in places for name in place.__all__ if callable(thing := getattr(place, name))}


def homes() -> dict[str, list[str]]:
    """The same names, by the room of the package in which they are defined."""
    found: dict[str, list[str]] = {}
    for name, thing in public().items():
        found.setdefault(thing.__module__.split(".")[1], []).append(name)
    return found


def examples_of(name: str, thing: Any = None) -> list[doctest.DocTest]:
    """Docstrings with examples: of a public name and, for a class, of its methods."""
    found = doctest.DocTestFinder().find(thing or public()[name], name, globs={})
    return [test for test in found if test.examples]


def run(test: doctest.DocTest) -> dict[str, Any]:
    """The names that examples leave behind; fails, with the docstring's line, where they do not give what they say."""
    test.globs = {"np": np}
    for base in re.findall(r"as in ``(\w+)``:", (test.docstring or "").partition("Examples\n")[2]):
        test.globs |= run_first(base)
    report: list[str] = []
    found = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
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


def test_every_public_name_has_examples() -> None:
    for name in sorted(set(public()) - WITHOUT_EXAMPLES):
        found = examples_of(name)
        assert name in [test.name for test in found], f"{name} has no example in its docstring"
        for test in found:
            assert re.search(r"^ *Examples\n *--------\n", test.docstring or "", flags=re.MULTILINE), test.name
            assert not any(example.options.get(doctest.SKIP) for example in test.examples), test.name
    assert set(public()) >= WITHOUT_EXAMPLES


def cases() -> Iterator[Any]:
    for home, names in homes().items():
        yield pytest.param([name for name in names if name not in SLOW], id=home)
        yield from (pytest.param([name], id=name, marks=pytest.mark.slow) for name in names if name in SLOW)


@pytest.mark.parametrize("names", list(cases()))
def test_examples_give_what_they_say(names: list[str], folder: Path) -> None:
    for name in names:
        if name == "load_warfarin":  # the consortium's file is not part of the project
            from rcb_bayes.studies.warfarin.synthetic import synthetic_patients

            write_csv(folder / "warfarin.csv", *cells(synthetic_patients(30)))
        if name in ("load_actg", "run_actg", "ActgResult"):  # nor is the trial's
            write_table(folder / "actg175.csv")
        for test in examples_of(name):
            run_first(name) if test.name == name else run(test)


# --- parameters ------------------------------------------------------------------------------------------------------


def sections_of(docstring: str) -> dict[str, str]:
    """The sections of a docstring in numpydoc, by title."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(docstring: str) -> dict[str, tuple[str, str]]:
    """Parameters of a docstring: the type of each, and what it is."""
    found = {}
    for entry in re.split(r"^(?=\S)", sections_of(docstring).get("Parameters", ""), flags=re.MULTILINE):
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        found |= {name.lstrip("*"): (kind.strip(), text.strip()) for name in names.split(", ") if name}
    return found


def faults_of(name: str, thing: Any) -> list[str]:
    """What a docstring leaves out of the signature, or has beyond it."""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # of built-in classes
        return []
    if isinstance(thing, type) and (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)):
        return []
    wanted = [one for one in signature.parameters if one not in ("self", "cls")]
    told = described(thing.__doc__ or "")
    faults = [f"{name}: {one} is not described" for one in wanted if not all(told.get(one, ("", "")))]
    faults += [f"{name}: {one} is no parameter" for one in told if one not in wanted]
    faults += [f"{name}: '{told[one][0]}' is no type, but words" for one in told if told[one][0].endswith((".", ";"))]
    returns = signature.return_annotation
    if not isinstance(thing, type) and returns not in (None, inspect.Signature.empty):
        faults += [] if "Returns" in sections_of(thing.__doc__ or "") else [f"{name}: no word on what it returns"]
    return faults


def methods_of(name: str, thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods that describe parameters, and the constructors among them in any case."""
    for key, value in vars(thing).items():
        method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if key.startswith("_") or not inspect.isfunction(method):
            continue
        if isinstance(value, classmethod) or "Parameters\n" in (method.__doc__ or ""):
            yield f"{name}.{key}", method


def test_every_parameter_is_described_with_its_type() -> None:
    faults = [fault for name, thing in public().items() for fault in faults_of(name, thing)]
    assert not faults, "\n".join(faults)


def test_methods_that_describe_parameters_describe_all_of_them() -> None:
    classes = {name: thing for name, thing in public().items() if isinstance(thing, type)}
    methods = [pair for name, thing in classes.items() for pair in methods_of(name, thing)]
    assert len(methods) > 30
    faults = [fault for name, method in methods for fault in faults_of(name, method)]
    assert not faults, "\n".join(faults)


def half_told(market: Any, *, epsilon: float = 0.05, seed: int = 1) -> int:
    """A function.

    Parameters
    ----------
    market : what users believe
    epsilon : float
        What they put up with.
    horizon : int
        T.
    """
    return 0


def test_a_parameter_that_is_not_described_is_noticed() -> None:
    assert faults_of("f", half_told) == [
        "f: market is not described",
        "f: seed is not described",
        "f: horizon is no parameter",
        "f: no word on what it returns",
    ]


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
    array([1. , 0.3])
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
        (wrong_digit, r"Expected:\n    array\(\[1. , 0.3\]\)\nGot:\n    array\(\[1. , 0.4\]\)"),
        (wrong_name, r"NameError: name 'market' is not defined"),
    ],
)
def test_a_planted_error_is_noticed(thing: Any, message: str) -> None:
    (test,) = examples_of("planted", thing)
    with pytest.raises(pytest.fail.Exception, match=message):
        run(test)


def test_a_docstring_without_examples_is_noticed() -> None:
    assert examples_of("planted", no_example) == []
