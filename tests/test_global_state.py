"""The check that every test has, on what it is to find."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.global_state import global_state, touched


@pytest.fixture(autouse=True)
def _put_back(no_global_state_is_touched: None) -> Iterator[None]:
    """Undo what is planted before the check of this test itself."""
    numpy_state, errors = np.random.get_state(), np.geterr()  # noqa: NPY002
    yield
    np.random.set_state(numpy_state)  # noqa: NPY002
    np.seterr(**errors)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("act", "found"),
    [
        (lambda: np.random.default_rng(1).normal(), []),
        (lambda: np.random.seed(1), ["NumPy's global random numbers"]),  # noqa: NPY002
        (lambda: np.random.standard_normal(), ["NumPy's global random numbers"]),  # noqa: NPY002
        (lambda: np.seterr(all="raise"), ["how NumPy takes errors"]),
    ],
)
def test_what_is_touched_is_named(act: Callable[[], object], found: list[str]) -> None:
    before = global_state()
    act()
    assert touched(before, global_state()) == found
