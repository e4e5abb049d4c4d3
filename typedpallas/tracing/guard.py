"""A fault of the checker is never a fault of the kernel: it is said aloud, and the rest goes on.

``TYPEDPALLAS_DEBUG=1`` raises it instead, with its traceback; the tests run so.
"""

import os
import warnings
from collections.abc import Iterable, Iterator


class CheckerFault(RuntimeWarning):
    """Something of a kernel was not looked at, since the checker itself failed there."""


def guarded[T](seen: Iterable[T], what: str, kernel: str) -> Iterator[T]:
    """``seen`` as far as it goes; ``what`` names the part that is left unchecked where it fails."""
    try:
        yield from seen
    except Exception as error:
        if os.environ.get("TYPEDPALLAS_DEBUG"):
            raise
        warnings.warn(
            f"typedpallas could not check {what} of `{kernel}` ({type(error).__name__}: {error}); nothing is said "
            "about it. This is a fault of the checker, not of the kernel: please report it",
            CheckerFault,
            stacklevel=2,
        )
