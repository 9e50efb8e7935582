"""Arrays through JSON and back, to the last bit; nothing is allocated that a file merely claims."""

import base64
import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rcb_bayes.errors import RcbError
from rcb_bayes.files.encoding import Packed, b85, from_b85, number, packed, text_length, unpacked


def there_and_back(value: np.ndarray, kind: str = "f8") -> np.ndarray:
    text = json.dumps(packed(value, kind), allow_nan=False)  # pyright: ignore[reportArgumentType]
    return unpacked(msgspec.convert(json.loads(text), Packed))


@given(arrays(np.float64, array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), elements=st.floats(width=64)))
def test_arrays_come_back_to_the_last_bit(value: np.ndarray):
    again = there_and_back(value)
    assert again.shape == value.shape
    np.testing.assert_array_equal(again, value)
    np.testing.assert_array_equal(np.signbit(again), np.signbit(value))


@pytest.mark.parametrize("kind", ["i2", "i8", "f4"])
def test_other_kinds_come_back(kind: str):
    value = np.arange(-3, 4, dtype=float)
    np.testing.assert_array_equal(there_and_back(value, kind), value)


@given(st.binary(max_size=60))
def test_the_text_is_the_standard_library_s(data: bytes):
    assert b85(data) == base64.b85encode(data).decode("ascii")
    assert from_b85(b85(data)) == data
    assert len(b85(data)) == text_length(len(data))


def test_no_character_needs_escaping():
    text = b85(np.random.default_rng(1).bytes(10_000))
    assert json.dumps(text) == f'"{text}"'


def test_numbers_that_json_does_not_have_are_words():
    assert [number(value) for value in (math.nan, math.inf, -math.inf, 0.1)] == ["nan", "inf", "-inf", 0.1]


def test_a_transposed_array_keeps_its_places():
    value = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(there_and_back(value), value)


def test_decoded_arrays_may_be_written_to():
    again = there_and_back(np.zeros(3))
    again[0] = 1.0
    assert again[0] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (10**6, 10**6)}, "needs"),
        ({"shape": (2,)}, "needs 20 characters"),
        ({"data": "é" * 30}, "not base85"),
        ({"data": '"' * 30}, "not base85"),
        ({"data": "~" * 30}, "digits"),
    ],
)
def test_what_is_no_array_is_refused(change: dict, message: str):
    with pytest.raises(RcbError, match=message):
        unpacked(msgspec.convert({**packed(np.zeros(3)), **change}, Packed))


@pytest.mark.parametrize("shape", [(2**40, 2**40, 0), (0, 2**40), (65536, 65536, 0)])
def test_an_array_without_numbers_claims_no_room(shape: tuple[int, ...]):
    with pytest.raises(RcbError, match="without numbers"):
        unpacked(Packed(kind="f8", shape=shape, data=""))


def test_an_array_without_numbers_keeps_its_shape():
    assert unpacked(Packed(kind="f8", shape=(1000, 0, 5), data="")).shape == (1000, 0, 5)
