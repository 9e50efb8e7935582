"""Arrays and numbers in JSON, without loss."""

import base64
import math
from typing import Any

import numpy as np


def encoded(value: Any) -> Any:
    """A value as JSON has it: arrays as base64, and text for numbers that JSON does not have."""
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value, dtype="<f8").tobytes()).decode("ascii")
        return {"shape": list(value.shape), "data": data}
    if isinstance(value, tuple):
        return [encoded(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    return value


def decoded(value: Any) -> Any:
    """The value again; lists come back as tuples."""
    if isinstance(value, dict):
        if "number" in value:
            return float(value["number"])
        raw = np.frombuffer(base64.b64decode(value["data"]), dtype="<f8")
        return raw.reshape(value["shape"]).astype(np.float64)
    return tuple(decoded(part) for part in value) if isinstance(value, list) else value
