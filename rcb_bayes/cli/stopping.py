"""Ctrl-C on the command line: it stops at once, says what is kept, and exits with 130."""

import _thread
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import _exit
from pathlib import Path

from rcb_bayes.errors import is_interrupt

STOPPED = 130  # as shells have it: 128 plus the signal
_AGAIN, _AT_LAST = 1.0, 5.0  # seconds after Ctrl-C

_kept: list[str] = []
_resumable: list[str] = []


def forget_kept() -> None:
    """Begin anew: nothing is written yet."""
    _kept.clear()
    _resumable.clear()


def keep(target: Path | str) -> None:
    """Note a file that is written, whole."""
    _kept.append(str(target))


def keep_parts(words: str) -> None:
    """Note where finished parts of a long run are kept, and how to go on with it."""
    _resumable.append(words)


def words() -> str:
    """What is said of a run that was stopped."""
    if _resumable:
        return f"stopped. {_resumable[-1]}"
    return f"stopped. Written before that: {', '.join(_kept)}" if _kept else "stopped. Nothing was written."


@contextmanager
def watched() -> Iterator[None]:
    """Make sure that Ctrl-C is heard.

    Python raises KeyboardInterrupt where it happens to be. In a callback of compiled code it is swallowed there, and
    code that does not return for seconds is not interrupted at all. So a thread raises it again after a second, and
    ends the process after five.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Semaphores of workers that are left behind are cleaned up by a process of its own, which would tell so.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    here, there = socket.socketpair()
    there.setblocking(False)
    before = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_insist, args=(here,), daemon=True).start()
    report = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if is_interrupt(lost.exc_value) else report(lost)  # it comes again
    try:
        yield
    finally:
        sys.warnoptions.pop()
        sys.unraisablehook = report
        signal.set_wakeup_fd(before)
        there.close()  # which ends the thread


def _insist(here: socket.socket) -> None:
    with here:
        while (told := here.recv(1)) and told[0] != signal.SIGINT:
            pass
        if not told:
            return
        here.settimeout(_AGAIN)
        start = time.monotonic()
        while time.monotonic() - start < _AT_LAST:
            with suppress(TimeoutError):
                if not _rest(here):
                    return
            _interrupt()
        leave(f"rcb: {words()}\n")


def _interrupt() -> None:
    """Ctrl-C for the main thread, also while it sleeps."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _rest(here: socket.socket) -> bool:
    """Whether the command is still at work; TimeoutError after a second of it, further Ctrl-C are read over."""
    while told := here.recv(64):
        pass
    return bool(told)


def leave(message: str = "") -> None:
    """End the process now: what an interrupted library would still do at the end of it is not waited for."""
    with suppress(Exception):
        sys.stderr.write(message)
        sys.stdout.flush()
        sys.stderr.flush()
    _exit(STOPPED)


def ignore() -> None:
    """Let Ctrl-C come too late: everything is done and written, and the verdict stands."""
    with suppress(ValueError):  # of a thread that is not the main one
        signal.signal(signal.SIGINT, signal.SIG_IGN)
