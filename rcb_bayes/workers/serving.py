"""What runs in a worker: calls are answered one at a time, and what they share is made once and kept.

A call brings its task as bytes, and the fingerprints of what it shares with others: the function, what makes its first
argument (a market with its engines, a plan), and perhaps what some tasks are about (the worlds of a scene). A worker
that does not have them says so, and is sent them with the call once more; so they travel once to each worker, whatever
the engine underneath. What was made, and with it what was compiled, is kept by the fingerprint of what made it, and
serves other functions and later runs, too.
"""

import math
import os
import socket
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from rcb_bayes._version import __version__
from rcb_bayes.telling.progress import hush
from rcb_bayes.workers.parcels import Hidden, Parcel, Shared, opened, shared

# Words of libraries to whoever writes them; Python does not show users these either.
_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
_MOST_KEPT = 4
_LARGE = 2**18  # bytes of an answer's arrays
_MOST_GIVEN = 2  # what tasks are about may be large, and comes in order
_PATIENCE = 1.0  # seconds between two looks at whether the parent is alive

_functions: "OrderedDict[str, Callable[..., Any]]" = OrderedDict()
_made: "OrderedDict[str, tuple[Any, Any]]" = OrderedDict()
_given: "OrderedDict[str, Any]" = OrderedDict()
_answers: list[Parcel] = []  # the last one, until the next call: by then it was looked at
_one_at_a_time = threading.Lock()  # compiled functions keep their arguments where all threads find them
_inside = threading.local()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A task for a worker, as bytes; what it shares with others by name, with the bytes of what the worker may lack.

    Who is ``near`` looks into the worker's memory for a large answer, before he calls again.
    """

    versions: dict[str, str]
    function: str
    make: str
    given: str | None
    parts: dict[str, bytes | Shared]
    task: bytes
    near: bool = False

    @property
    def lacks(self) -> bool:
        """Whether this worker has not all that the call names."""
        kept = ((self.function, _functions), (self.make, _made), (self.given, _given))
        return any(name is not None and name not in own and name not in self.parts for name, own in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a worker says: the value, that it needs what calls share, or why it cannot serve.

    ``seconds`` are of the task, by the clock; ``worked`` of the processor, and ``readied`` of the processor before it:
    for what it shares with others, and for reading it.
    """

    kind: Literal["done", "needs", "refused"]
    worker: str
    value: Any = None
    seconds: float = 0.0
    worked: float = 0.0
    readied: float = 0.0
    warned: tuple[tuple[Warning, str, int], ...] = ()


@cache
def versions() -> dict[str, str]:
    """What must be the same everywhere for answers to be the same to the last bit: packages, and what they run on.

    OpenBLAS multiplies, NumPy takes exponentials and Numba compiles by the type of the processor.
    """
    from importlib.metadata import version

    import numpy as np
    import scipy.linalg  # noqa: F401 (its BLAS is loaded with it)
    from numba.core.registry import cpu_target
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    own = [pool for pool in pools if "numpy" in pool["filepath"] or "scipy" in pool["filepath"]] or pools
    blas = sorted({f"{p['internal_api']} {p['version']} {p.get('architecture', '')}" for p in own})
    simd = np.show_config(mode="dicts")["SIMD Extensions"]  # pyright: ignore[reportOptionalSubscript]
    found = {"rcb_bayes": __version__} | {name: version(name) for name in ("numpy", "scipy", "pymc", "numba")}
    found |= {"BLAS": ", ".join(blas), "NumPy for": (simd["baseline"] + simd.get("found", []))[-1]}
    context: Any = cpu_target.target_context
    return found | {"Numba for": context.codegen().magic_tuple()[1]}


def answer(call: Call) -> Answer:
    """Answer a call; a library's threads are held to one meanwhile."""
    who = f"{socket.gethostname()}, process {os.getpid()}"
    own = versions()
    if call.versions != own:
        names = [name for name in call.versions if call.versions[name] != own.get(name)]
        told = ", ".join(f"{name} {own.get(name)} (here {call.versions[name]})" for name in names)
        return Answer(kind="refused", worker=who, value=told)
    with _one_at_a_time:
        _answers.clear()
        if call.lacks:
            return Answer(kind="needs", worker=who)
        import cloudpickle

        begun = time.thread_time()
        try:
            function, (made, threads), given = _shared(call)
        except Hidden:
            return Answer(kind="needs", worker=who)
        start, task = time.perf_counter(), cloudpickle.loads(call.task)
        with warnings.catch_warnings(record=True) as found, threads.limit(limits=1), _as_worker():
            warnings.simplefilter("always")
            for category in _FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
            ready = time.thread_time()
            value = function(made, task, *given)
        seconds, worked, readied = time.perf_counter() - start, time.thread_time() - ready, ready - begun
        parcel = shared(value, least=_LARGE) if call.near else None
        if parcel is not None:
            _answers.append(parcel)
            value = parcel.told
    told = tuple((one.message, one.filename, one.lineno) for one in found if isinstance(one.message, Warning))
    return Answer(kind="done", worker=who, value=value, seconds=seconds, worked=worked, readied=readied, warned=told)


def _shared(call: Call) -> tuple[Callable[..., Any], tuple[Any, Any], tuple[Any, ...]]:
    """The function; its first argument, and the threads of the libraries that were loaded for it; what is given."""
    from threadpoolctl import ThreadpoolController, threadpool_limits

    with threadpool_limits(limits=1) if call.make not in _made else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told where the market and the plan were made
        function = _kept(_functions, call.function, lambda: opened(call.parts[call.function]))
        make = _kept(_made, call.make, lambda: (opened(call.parts[call.make])(), ThreadpoolController()))
        name = call.given
        if name is None:
            return function, make, ()
        return function, make, (_kept(_given, name, lambda: opened(call.parts[name]), most=_MOST_GIVEN),)


def _kept[T](kept: "OrderedDict[str, T]", name: str, make: Callable[[], T], *, most: int = _MOST_KEPT) -> T:
    """What is kept by a name, made where it is not; the one that was not asked for longest makes room."""
    if name not in kept:
        while len(kept) >= most:
            kept.popitem(last=False)
        kept[name] = make()
    kept.move_to_end(name)
    return kept[name]


def in_worker() -> bool:
    """Whether this is said in a task: workers do not have workers of their own."""
    return getattr(_inside, "now", False)


@contextmanager
def _as_worker() -> Iterator[None]:
    _inside.now = True
    try:
        yield
    finally:
        _inside.now = False


def begin_worker(parent: int) -> None:
    """Set up a process of this machine: deaf to Ctrl-C, which is its parent's, quiet, and gone when that is."""
    import signal

    hush()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, AttributeError):
        # loky starts a worker anew that has grown by 300 MB; what was compiled there would be lost.
        from joblib.externals.loky import process_executor

        process_executor._MAX_MEMORY_LEAK_SIZE = math.inf  # pyright: ignore[reportAttributeAccessIssue]
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this process once its parent is gone, killed or not: nobody waits for what it computes."""
    while os.getppid() == parent:
        time.sleep(_PATIENCE)
    os._exit(1)
