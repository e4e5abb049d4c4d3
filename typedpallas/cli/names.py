"""What the user got wrong on the command line, and the nearest thing that would have been right."""

import difflib
from collections.abc import Iterable, Sequence


class UsageError(Exception):
    """A command that cannot be carried out; ``str()`` is what the user reads, exit code 2."""


def nearest(word: str, known: Iterable[str], kind: str) -> UsageError:
    """The error for an unknown name: the closest known ones, or all of them where none is close."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[low] for low in difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)]
    if near:
        return UsageError(f"unknown {kind} `{word}`: did you mean {_either(near)}?")
    return UsageError(f"unknown {kind} `{word}`: expected one of {', '.join(names)}")


def _either(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def pointed(message: str, text: str, start: int, length: int = 1) -> UsageError:
    """The error about a part of ``text``: the message, the text and carets below the part."""
    return UsageError(f"{message}\n  {text}\n  {' ' * start}{'^' * max(length, 1)}")
