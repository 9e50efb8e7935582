"""Beliefs that travel to other processes: a PyMC model as bytes, read once where it arrives and kept.

PyMC models have functions of their own, which plain ``pickle`` refuses and ``cloudpickle`` sends by value. What was
compiled does not travel. A process keeps the last few beliefs that it was sent, so that what it compiles for one serves
whatever comes with the same belief again.
"""

import hashlib
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import BeliefError

if TYPE_CHECKING:
    from rcb_bayes.belief.prior import Prior

_MOST_KEPT = 8
_arrived: "OrderedDict[str, Prior]" = OrderedDict()


def as_bytes(model: Any, *, name: str) -> bytes:
    """A belief's model.

    Raises
    ------
    BeliefError
        A model with parts that cannot be sent, such as open files.
    """
    import cloudpickle

    try:
        return cloudpickle.dumps(model)
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        raise BeliefError(
            f"The belief '{name}' cannot be sent to another process: {told}. Build its model from arrays and numbers."
        ) from error


def from_bytes(data: bytes, name: str, words: dict[str, Any]) -> "Prior":
    """The belief of a model that has arrived, read in the same words; the same object for the same bytes."""
    import cloudpickle

    from rcb_bayes.belief.constructors import of_model

    key = f"{hashlib.blake2b(data, digest_size=16).hexdigest()} {name} {sorted(words.items())}"
    if key not in _arrived:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told where the belief was made
            _arrived[key] = of_model(cloudpickle.loads(data), words=words, name=name)
        while len(_arrived) > _MOST_KEPT:
            _arrived.popitem(last=False)
    _arrived.move_to_end(key)
    return _arrived[key]
