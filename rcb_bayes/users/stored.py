"""Populations as plans keep them: those in closed form travel with a plan's file, tables of people do not."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rcb_bayes.errors import RcbError
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.users.populations import Ball, Gaussian, Sphere, Uniform
from rcb_bayes.users.protocol import Covariates

_KINDS: dict[type, tuple[Literal["sphere", "ball", "gaussian", "uniform"], tuple[str, ...]]] = {
    Sphere: ("sphere", ()),
    Ball: ("ball", ()),
    Gaussian: ("gaussian", ("cov", "mean")),
    Uniform: ("uniform", ("low", "high")),
}
_MOST_FEATURES = 2**12  # E[xx'] takes 128 MB
_Number = Annotated[float, Meta(ge=-1e60, le=1e60)]


class Whom:
    """The population that a plan was made for, and the map from x to features where these are not x."""

    __slots__ = ("covariates", "feature_map")

    def __init__(self, covariates: Covariates, feature_map: FeatureMap | None = None) -> None:
        self.covariates = covariates
        self.feature_map = feature_map


class StoredUsers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A population in closed form, as a file has it; ``numbers`` are its vectors and matrices, row by row."""

    kind: Literal["sphere", "ball", "gaussian", "uniform"]
    n_features: Annotated[int, Meta(ge=1, le=_MOST_FEATURES)]
    numbers: tuple[tuple[_Number, ...], ...]


def stored(whom: Whom) -> dict[str, Any] | None:
    """A population as JSON has it; None for a table, whose rows are people, and for a class of one's own."""
    users = whom.covariates
    if type(users) not in _KINDS or whom.feature_map is not None or users.n_features > _MOST_FEATURES:
        return None  # a map is code, and no part of a file
    kind, names = _KINDS[type(users)]
    numbers = [getattr(users, name).reshape(-1).tolist() for name in names]
    return {"kind": kind, "n_features": users.n_features, "numbers": numbers}


def restored(found: StoredUsers) -> Whom:
    """The population again.

    Raises
    ------
    RcbError
        Numbers that make none.
    """
    d = found.n_features
    names = next(names for kind, names in _KINDS.values() if kind == found.kind)
    sizes = tuple(len(part) for part in found.numbers)
    if sizes != tuple(d * d if name == "cov" else d for name in names):
        raise RcbError(f"a population '{found.kind}' of {d} features has other numbers")
    if found.kind in ("sphere", "ball"):
        return Whom(Sphere(d) if found.kind == "sphere" else Ball(d))
    first, second = found.numbers
    if found.kind == "uniform":
        return Whom(Uniform(first, second))
    return Whom(Gaussian([first[row * d : (row + 1) * d] for row in range(d)], mean=second))
