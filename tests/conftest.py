"""What every test has."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.global_state import global_state, touched

# Half a minute on a busy machine, and a line about it would stand where tests expect none.
os.environ.setdefault("RCB_PROGRESS", "off")


@pytest.fixture(autouse=True)
def no_global_state_is_touched() -> Iterator[None]:
    """Randomness is explicit: whoever draws from a global stream makes results depend on what ran before."""
    before = global_state()
    yield
    assert touched(before, global_state()) == []


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    """Pyplot keeps figures until told otherwise, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def small_panels() -> Iterator[None]:
    """Few users stand for a population, where a test is of what is said, written or handed on and not of figures.

    For whole modules, since results are kept from test to test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rcb_bayes.mechanism.simulator.N_USERS", 256)
        yield


@pytest.fixture
def small_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a single test, which keeps nothing for others that do without."""
    monkeypatch.setattr("rcb_bayes.mechanism.simulator.N_USERS", 256)
