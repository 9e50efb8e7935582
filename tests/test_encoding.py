"""Arrays and numbers through JSON and back, to the last bit."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rcb_bayes.encoding import decoded, encoded


def there_and_back(value: Any) -> Any:
    return decoded(json.loads(json.dumps(encoded(value), allow_nan=False)))


@given(arrays(np.float64, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=st.floats(width=64)))
def test_arrays_come_back_to_the_last_bit(value: np.ndarray):
    again = there_and_back(value)
    assert again.shape == value.shape
    np.testing.assert_array_equal(again, value)


@given(st.floats(allow_nan=False))
def test_numbers_come_back_to_the_last_bit(value: float):
    again = there_and_back(value)
    assert again == value
    assert math.copysign(1.0, again) == math.copysign(1.0, value)


def test_what_is_no_number_stays_none():
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize("value", [None, True, "text", 3, (), (1, ("a", math.inf)), ((1.5, None), "b")])
def test_other_values_come_back(value: Any):
    assert there_and_back(value) == value
    assert type(there_and_back(value)) is type(value)


def test_a_transposed_array_keeps_its_places():
    value = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(there_and_back(value), value)


def test_decoded_arrays_may_be_written_to():
    again = there_and_back(np.zeros(3))
    again[0] = 1.0
    assert again[0] == 1.0
