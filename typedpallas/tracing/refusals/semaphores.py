"""JAX's refusals about semaphores: used as data, or as semaphores of another kind, or many at once."""

import re

from typedpallas.events import SemaphoreMisuse

KINDS = {"dma_sem": "DMA semaphore", "semaphore": "regular semaphore", "barrier_semaphore": "barrier semaphore"}
"""Semaphores by JAX's names of their types."""

_WAIT_FOR_COPY = re.compile(r"dma_wait requires a DMA semaphore, but got a regular semaphore")
_KIND = re.compile(r"Must (?P<verb>signal|wait) semaphores of the following types: .*\. Got (?P<dtype>\w+)\.")
_MANY = re.compile(r"Cannot (?P<verb>signal|wait|read) on a non-\(\)-shaped semaphore: \((?P<shape>[\d, ]*)\)")
_LOADED = re.compile(r"dtype=(?P<dtype>\w*sem\w*) is not a valid dtype for JAX type promotion")
_BOOL = re.compile(r"Attempted boolean conversion of traced array with shape (?P<dtype>\w*sem\w*)\[")
_STORED = re.compile(r"Invalid dtype for `(?:swap|addupdate)`\. Ref dtype: (?P<dtype>\w*sem\w*)\.")


def event(words: str, text: str) -> SemaphoreMisuse | None:
    """What JAX refused, in its words; ``text`` is the source that it refused."""
    if _WAIT_FOR_COPY.search(words):
        return _misuse(text, kind("semaphore"), "a copy", "a DMA semaphore")
    found = _KIND.search(words)
    if found is not None:
        wanted = "a regular or barrier semaphore"
        return _misuse(text, kind(found["dtype"]), f"`pl.semaphore_{found['verb']}`", wanted)
    found = _MANY.search(words)
    if found is not None:
        use = "a copy" if "copy" in text or ".start" in text else f"`pl.semaphore_{found['verb']}`"
        return _misuse(text, f"an array of shape ({found['shape']})", use, "one semaphore")
    for pattern, use in ((_LOADED, "arithmetic on a load from it"), (_BOOL, "a test"), (_STORED, "a store to it")):
        found = pattern.search(words)
        if found is not None and found["dtype"] in KINDS:
            return _misuse(text, kind(found["dtype"]), use, "a buffer")
    return None


def kind(dtype: str) -> str:
    """What something of a type is called where a semaphore is wanted."""
    return f"a {KINDS[dtype]}" if dtype in KINDS else f"a buffer of {dtype}"


_CALLED = re.compile(r"semaphore_(?:signal|wait|read)\(\s*(?P<name>[A-Za-z_]\w*)")
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\.at)?\[")


def _misuse(text: str, what: str, use: str, wanted: str) -> SemaphoreMisuse:
    """The event, with the semaphore's name where the text shows it."""
    found = _CALLED.search(text) or (_NAMED.match(text) if "store" in use else None)
    return SemaphoreMisuse(name=found["name"] if found else "the semaphore", kind=what, use=use, wanted=wanted)
