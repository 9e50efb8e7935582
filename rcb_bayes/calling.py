"""``checked``: what public functions are given, held against their annotations, in one place.

Only kinds are looked at: that a market is a market, a number a number, a function one that takes as many arguments.
Which numbers are possible, and whether things fit together, is for the functions themselves, and numbers, words and
lists are theirs first: only where such a call ends in an error of another kind is it told which was wrong. A name
in an annotation that is not imported (``"xr.Dataset"``) is compared with the names of classes.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature, unwrap
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAliasType, Union, get_args, get_origin

import numpy as np

from rcb_bayes.errors import BeliefError, DataError, MarketError, RcbError
from rcb_bayes.schema import shown

_ANYTHING = object()
_CHECKED = set[Any]()
_TOO_BIG = ("array is too big", "Maximum allowed dimension")  # as NumPy has it
_LONG = 500  # of a message
_LARGEST = 10**300  # that is a number still
_LONGEST = 1000  # items of a list that are looked at
_ERRORS = {"belief": BeliefError, "market": MarketError, "users": DataError}  # of other rooms RcbError
_PLAIN = ("True or False", "a number", "an integer", "a text", "a path", "a dict")
_USE = {
    "Audit": "rcb.audit(market, plan)",
    "Covariates": "Sphere(d), Ball(d), Gaussian(cov), Uniform(low, high) or Empirical(rows)",
    "Exploring": "rcb.Exploring(eliminate=, top=, clusters=, contextual=)",
    "Generator": "numpy.random.default_rng(seed)",
    "Market": "rcb.Market(prior=..., covariates=..., noise=...)",
    "Model": "pm.Model(coords=...)",
    "Noise": "GaussianNoise(sigma) or BernoulliLogit()",
    "Oracle": "rcb.PosteriorOracle(prior, noise), or rcb.SklearnOracle(estimator=...) around an estimator",
    "Plan": "rcb.calibrate(market)",
    "Prior": "Prior.from_pymc(model), Prior.gaussian(mean, cov) or load_prior(name)",
    "Recommender": "rcb.Recommender(market, plan)",
    "Rule": "plan.distil()",
}
_WORDS = {
    **{"bool": "True or False", "float": "a number", "int": "an integer", "str": "a text", "NoneType": "None"},
    **{"Path": "a path", "PathLike": "a path", "ndarray": "a NumPy array", "Mapping": "a dict"},
    **dict.fromkeys(("Sequence", "Iterable"), "a list"),
    **{"Covariates": "a population", "Generator": "a numpy Generator", "Model": "a pm.Model"},
}


def checked[T: Callable[..., Any]](target: T) -> T:
    """A function that refuses arguments of the wrong kind; of a class, its constructor and its public methods do.

    Raises
    ------
    RcbError
        By the function that comes back: an argument is not what its annotation says.

    Examples
    --------
    >>> from rcb_bayes.calling import checked
    >>> @checked
    ... def twice(x: float) -> float:
    ...     return 2 * x
    >>> twice("a")
    Traceback (most recent call last):
    rcb_bayes.errors.RcbError: x must be a number, got 'a'.
    """
    if isinstance(target, type):
        for owner in target.__mro__:
            if owner.__module__.startswith("rcb_bayes") and not getattr(owner, "_is_protocol", False):
                _check_methods(owner)
        return target  # pyright: ignore[reportReturnType]
    hints = {} if target in _CHECKED else _hints(target)
    if not hints:
        return target
    names = [name for name, parameter in signature(target).parameters.items() if parameter.kind < 2]
    refused = _ERRORS.get(target.__module__.split(".")[1], RcbError) if "." in target.__module__ else RcbError

    things = {name: kinds for name, kinds in hints.items() if not (int in kinds or all(map(_is_plain, kinds)))}

    def look(given: Mapping[str, Any], kinds: Mapping[str, tuple[Any, ...]]) -> None:
        for name, value in given.items():
            wanted = kinds.get(name, hints.get(name) if isinstance(value, Iterator) else None)  # one may be endless
            if wanted is not None and not _fits(wanted, value):
                raise refused(_refusal(name, value, given, hints)) from None

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        look(given, things)
        try:
            return target(*args, **kwargs)
        except RcbError as error:
            if "\n" in str(error) or len(str(error)) > _LONG:  # what came is no word to be told whole
                look(given, hints)
            raise
        except Exception as error:
            look(given, hints)
            if isinstance(error, MemoryError) or str(error).startswith(_TOO_BIG):
                raise RcbError(f"More memory is needed than there is ({error}). Ask for less at a time.") from None
            raise

    _CHECKED.add(call)
    return call  # pyright: ignore[reportReturnType]


def _check_methods(owner: type) -> None:
    for name, part in list(vars(owner).items()):
        function = part.__func__ if isinstance(part, classmethod) else part
        if isinstance(function, types.FunctionType) and (name == "__init__" or not name.startswith("_")):
            own = checked(function)
            setattr(owner, name, classmethod(own) if isinstance(part, classmethod) else own)


def at_the_door(names: dict[str, Any], public: Iterable[str]) -> None:
    """Check what a room of the package makes public: its functions, and the methods of its classes.

    Within the package functions call one another as they are. What is public stands in its own module, too, so that
    it can be sent to other processes.
    """
    for name in public:
        if callable(names[name]):
            names[name] = checked(names[name])
            setattr(import_module(names[name].__module__), name, names[name])


def _hints(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """The kinds that each argument may be, where any can be told; a default of None is one of them."""
    found = {}
    known = unwrap(function).__globals__
    for name, parameter in signature(function).parameters.items():
        kinds = _kinds(Any if parameter.annotation is parameter.empty else parameter.annotation, known)
        if parameter.kind not in (2, 4) and not any(_is(kind, _ANYTHING) for kind in kinds):
            found[name] = (*kinds, None) if parameter.default is None else kinds
    return found


def _kinds(hint: Any, known: Mapping[str, Any]) -> tuple[Any, ...]:
    """The alternatives of an annotation; text stays where a name in it is not imported."""
    if isinstance(hint, str):
        parts = re.split(r" \| (?![^\[\]]*\])", hint)  # at bars that stand in no brackets
        return tuple(kind for part in parts for kind in _evaluated(part, known))
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part, known))
    return (hint,)


def _evaluated(text: str, known: Mapping[str, Any]) -> tuple[Any, ...]:
    try:
        return _kinds(eval(text, dict(known)), known)  # an annotation of this package
    except NameError:
        return _evaluated(text.split("[")[0], known) if "[" in text else (text.rsplit(".")[-1],)


def _is_plain(kind: Any) -> bool:
    """Whether a kind is of numbers, words or lists: these the functions look at themselves, and tell the range, too."""
    origin = get_origin(kind) or kind
    if isinstance(origin, type) and origin not in (int, float, bool, str):
        return issubclass(origin, (list, tuple, Sequence, Iterable, Mapping, np.ndarray, types.NoneType))
    return origin is not Callable and not isinstance(kind, str)


def _fits(kinds: Iterable[Any], value: Any) -> bool:
    return any(_is(kind, value) for kind in kinds)


def _is(kind: Any, value: Any) -> bool:
    """Whether a value is of one kind; what cannot be told is left to the function."""
    if kind is None or kind is types.NoneType:
        return value is None
    if isinstance(kind, str):
        return any(parent.__name__ == kind for parent in type(value).__mro__)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:  # an array, and how many dimensions it has
        return _is(inner[0], value) and value.ndim == inner[1]
    if origin is Literal:
        return isinstance(value, str) or not all(isinstance(word, str) for word in inner)
    if isinstance(origin, TypeAliasType):  # of NumPy
        return origin.__name__ != "NDArray" or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")
    if origin is Callable:
        return callable(value) and (not inner or inner[0] is ... or takes(value, len(inner[0])))
    if not isinstance(origin, type) or origin is object:
        return True
    if origin in (bool, float, int):
        if origin is not bool and isinstance(value, bool | np.timedelta64):
            return False
        if origin is float and isinstance(value, Integral) and abs(int(value)) > _LARGEST:
            return False
        return isinstance(value, {bool: bool | np.bool_, float: Real, int: Integral}[origin])
    if origin in (Sequence, Iterable, list, tuple):
        if inner[1:] not in ((), (...,)):
            return _is_list(origin, value) and len(value) == len(inner)
        return _is_list(origin, value) and _all_fit(inner[:1], value)
    if issubclass(origin, Mapping):
        return isinstance(value, origin) and _all_fit(inner[1:], value.values())
    if issubclass(origin, Path):
        return isinstance(value, str | PathLike)
    try:
        return isinstance(value, origin) and not (isinstance(value, type) and origin is not type)
    except TypeError:  # a protocol that is not checked as one
        return True


def _is_list(origin: type, value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping | type) or (isinstance(value, np.ndarray) and not value.ndim):
        return False
    if origin is Iterable:
        return isinstance(value, Iterable)
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _all_fit(inner: tuple[Any, ...], values: Any) -> bool:
    if not inner or not hasattr(values, "__len__"):  # to look at it would be to use it up
        return True
    kinds = _kinds(inner[0], {})
    return all(_fits(kinds, value) for _, value in zip(range(_LONGEST), values, strict=False))


def takes(function: Callable[..., Any], n: int) -> bool:
    """Whether a function can be called with so many arguments; one without a signature may be."""
    try:
        signature(function).bind(*range(n))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


# --- words -----------------------------------------------------------------------------------------------------------


def _refusal(name: str, value: Any, given: Mapping[str, Any], hints: Mapping[str, tuple[Any, ...]]) -> str:
    """Expected, got, remedy."""
    kinds = hints[name]
    told = f"{name} must be {_words(kinds)}, got {_got(kinds, value)}"
    for other in given:
        if other != name and other in hints and _fits(hints[other], value) and _fits(kinds, given[other]):
            return f"{told}: {name} and {other} are swapped."
    if isinstance(value, type) and any(_makes(value, kind) for kind in kinds):
        return f"{told}. Write {value.__name__}(...)."
    if isinstance(value, type) and any(get_origin(kind) is Callable for kind in kinds):
        return f"{told}. Write lambda market, seed: {value.__name__}(market, seed=seed)."
    return f"{told}." + "".join([f" Use {_USE[_name(kind)]}." for kind in kinds if _name(kind) in _USE][:1])


def _makes(maker: type, kind: Any) -> bool:
    """Whether what a class makes is of a kind."""
    is_protocol = getattr(kind, "_is_runtime_protocol", False)
    return isinstance(kind, type) and (isinstance(maker, kind) if is_protocol else kind in maker.__mro__)


def _name(kind: Any) -> str:
    return (kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))).removeprefix("Drawable")


def _words(kinds: Iterable[Any]) -> str:
    told = [_word(kind) for kind in kinds]
    shown = list(dict.fromkeys(word for word in told if word != "None" or len(told) == 1))
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _word(kind: Any) -> str:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:
        return f"{_word(inner[0])} in {inner[1]} dimensions"
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if isinstance(origin, TypeAliasType):
        return "a NumPy array of numbers" if origin.__name__ == "NDArray" else "numbers"
    if origin is Callable:
        return f"a function of {len(inner[0])} argument(s)" if inner and inner[0] is not ... else "a function"
    if origin in (Sequence, Iterable) and inner and inner[0] is not object:
        return "a list of " + " or ".join(f"{_word(part).split(' ', 1)[-1]}s" for part in _kinds(inner[0], {}))
    return "None" if origin is None else _WORDS.get(_name(origin), _one(_name(origin)))


def _got(kinds: Iterable[Any], value: Any) -> str:
    """What came: a thing by its name where another thing is wanted, else the value."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    is_plain = value is None or isinstance(value, Real | str | bytes | list | tuple | dict | set | np.generic)
    if is_plain and any(_word(kind) in _PLAIN or "list" in _word(kind) for kind in kinds):
        return shown(value)
    shape = f" of {value.dtype}, shape {value.shape}" if isinstance(value, np.ndarray) and value.ndim != 2 else ""
    return f"{type(value).__name__}{shape}"


def _one(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
