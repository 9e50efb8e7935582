"""What every test has."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    """Pyplot keeps figures until told otherwise, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
