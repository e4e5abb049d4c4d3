"""Refs of a kernel that nothing ever stores to: what is read from them, or given back in them, is garbage."""

from __future__ import annotations

from collections.abc import Iterator

from mypy import nodes as n

from typedpallas.events import NeverStored, RefFact
from typedpallas_mypy.handlers.body_tree import Body


def events(body: Body, refs: tuple[RefFact, ...], aliased: bool) -> Iterator[tuple[NeverStored, n.Context]]:
    """One event for each such ref, at its first load, or at the kernel if it is an output that nothing names.

    Only where all that happens to the ref is in sight; scratch that is added to and never looked into harms nobody.
    ``aliased``: outputs may begin with an input's content.
    """
    for ref in refs:
        variable = body.parameter(ref.name)
        wanted = ("scratch",) if aliased else ("scratch", "out")
        if variable is None or ref.direction not in wanted or ref.space is None or not ref.space.data:
            continue
        mentions = list(body.mentions(variable))
        uses = {mention.use for mention in mentions}
        if uses & {"store", "other"}:
            continue
        reads = [mention for mention in mentions if mention.use in ("load", "update")]
        if reads and (ref.direction == "out" or "load" in uses):
            place = reads[0].whole
            assert isinstance(place, n.Context)
            yield NeverStored(name=ref.name, kernel=body.function.name, read=True, updated="update" in uses), place
        elif ref.direction == "out":
            yield NeverStored(name=ref.name, kernel=body.function.name, read=False), body.function
