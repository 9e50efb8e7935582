"""What code may change behind everybody's back: NumPy's global random numbers, how it takes errors.

Python's own random numbers are left out: compilers draw names of files from them.
"""

from typing import Any

import numpy as np


def global_state() -> dict[str, Any]:
    """All of it, comparable."""
    numpy_state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 (looked at, not drawn from)
    inner = numpy_state["state"]
    return {
        "NumPy's global random numbers": (inner["key"].tobytes(), inner["pos"], numpy_state["has_gauss"]),
        "how NumPy takes errors": np.geterr(),
    }


def touched(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs, by name."""
    return [name for name, value in before.items() if after[name] != value]
