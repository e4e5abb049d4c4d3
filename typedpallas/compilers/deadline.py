"""Run Python code that may not come back in time.

Mosaic GPU's layout inference is Python in this process and can search for minutes. It is stopped by an
exception raised in its thread from a timer's thread: at the next bytecode, so a call into C++ is waited for.
"""

import ctypes
import threading
from collections.abc import Callable

_AGAIN_SECONDS = 2.0
"""Until the exception is raised again: one that falls into a destructor or a callback is swallowed there."""


class DeadlinePassed(Exception):
    """The code was stopped."""


class _Stop(BaseException):
    """Raised inside the code; no ``Exception``, so ``except Exception`` in there lets it through."""


def run_within[T](seconds: float, work: Callable[[], T]) -> T:
    """``work()``, stopped after `seconds`.

    Raises:
        DeadlinePassed: it was stopped; it may have been stopped anywhere, so throw away what it wrote.
    """
    thread = threading.get_ident()
    done = threading.Event()
    lock = threading.Lock()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            with lock:
                if not done.is_set():
                    _raise_in(thread, _Stop)
            wait = _AGAIN_SECONDS

    watcher = threading.Thread(target=watch, daemon=True, name="typedpallas-deadline")
    try:
        try:
            watcher.start()
            return work()
        finally:
            with lock:  # from here on nothing is raised any more, but one may be under way
                done.set()
            _raise_in(thread, None)
    except _Stop:
        done.set()
        _raise_in(thread, None)
        raise DeadlinePassed(f"stopped after {seconds:g} s") from None


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raises `exception` in the thread at its next bytecode; none takes back one not yet raised."""
    argument = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)
