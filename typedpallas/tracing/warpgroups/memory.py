"""Accesses to shared and tensor memory and to accumulators: which follow on others that have not ended."""

from collections.abc import Callable
from typing import Any

from typedpallas.tracing.warpgroups.state import (
    BESIDE,
    Barrier,
    Buffer,
    Claim,
    How,
    InUse,
    Record,
    Stamp,
    Thread,
    Uncommitted,
)
from typedpallas.tracing.warpgroups.views import Part, covers, meet

_IN_ORDER = ("product", "copy out", "copy in")
"""Kinds of operation of which one thread's follow on each other in order, so that they may share their memory."""
type Say = Callable[[Claim], None]


def access(
    say: Say,
    thread: Thread,
    buffer: Buffer,
    part: Part | None,
    how: How,
    stamp: Stamp,
    eqn: Any,
    *,
    writes: bool,
    barrier: Barrier | None = None,
) -> None:
    """One access, begun now by ``thread`` and ended when ``stamp`` is reached."""
    if part is None or buffer.kind in ("elsewhere", "barrier"):
        return
    if how == "store":
        buffer.storers.setdefault(id(eqn), set()).add(thread.number)
    new = Record(how, writes, part, stamp, thread, thread.moment(), eqn, barrier)
    kept = []
    for old in buffer.records:
        if not meet(old.part, part):
            kept.append(old)
            continue
        if writes or old.writes:
            _judge(say, buffer, old, new)
        if not _replaced(old, new):
            kept.append(old)
    kept.append(new)
    buffer.records = kept


def _judge(say: Say, buffer: Buffer, old: Record, new: Record) -> None:
    seen = (("committed", old.thread.number), old.stamp[1])
    if new.thread.has(old.stamp):
        if buffer.kind == "smem" and old.how == "store" and new.how in BESIDE and not new.thread.has(seen):
            say(Uncommitted(buffer, new.how, new.eqn, new.moment, old))
        return
    if _in_order(old, new) or old.how == new.how == "store" or _is_repeated(buffer, old, new):
        return  # two warpgroups may well store the same
    say(InUse(buffer, new.how, new.eqn, new.thread, new.moment, old, old.thread.has(old.stamp)))


def _in_order(old: Record, new: Record) -> bool:
    """Whether an access certainly ends before another, though nobody has waited for that.

    Two of a kind end in the order in which they are begun, products on Blackwell even across threads. A warpgroup
    that copies may have begun another product since: the first ends long before the copy begins to arrive. JAX's
    ragged product rests on that, and an H200 never got it wrong.
    """
    kind, *whose = old.stamp[0]
    if kind == new.stamp[0][0] and kind in _IN_ORDER:
        return new.thread.has((("begun", kind, *whose), old.stamp[1]))
    copies = old.how == "product" and new.how == "copy to" and old.thread is new.thread
    return copies and old.stamp[1] < new.thread.issued["product"]


def _is_repeated(buffer: Buffer, old: Record, new: Record) -> bool:
    """Whether both threads run the store of the two: warpgroups may well do the same work and store the same."""
    store = old if old.how == "store" else new
    if store.how != "store" or old.thread is new.thread:
        return False
    threads = buffer.storers[id(store.eqn)]
    return old.thread.number in threads and new.thread.number in threads


def _replaced(old: Record, new: Record) -> bool:
    """Whether nothing can be said about an earlier access that cannot be said about a later one."""
    if not covers(new.part, old.part):
        return False
    if new.writes and (new.thread.has(old.stamp) or old.stamp[0] == new.stamp[0] or _in_order(old, new)):
        return True
    return old.how == new.how and old.writes == new.writes and old.stamp[0] == new.stamp[0]
