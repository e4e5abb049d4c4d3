"""Copies as they are made: Pallas's own functions and ours, within a device and to another one."""

from __future__ import annotations

from typing import Final

from mypy import nodes as n

from typedpallas.records import record
from typedpallas_mypy.handlers.body_text import Given
from typedpallas_mypy.handlers.calls_source import arguments, function_name

_LOCAL: Final = ("src_ref", "dst_ref", "sem")
_REMOTE: Final = ("src_ref", "dst_ref", "send_sem", "recv_sem", "device_id", "device_id_type")
_MADE: Final = {
    "make_async_copy": _LOCAL,
    "async_copy": _LOCAL,
    "copy": _LOCAL,
    "make_async_remote_copy": _REMOTE,
    "async_remote_copy": _REMOTE,
}
_STARTED: Final = ("async_copy", "async_remote_copy")
_NAMES: Final = {"src": "src_ref", "dst": "dst_ref"}


@record(frozen=True)
class Copy:
    """A copy as it is made. ``given``: what stands for the parameters of the function that makes it."""

    call: n.CallExpr
    source: n.Expression
    target: n.Expression
    semaphore: n.Expression
    arrives: n.Expression | None
    """The semaphore that counts at the other device; none for a copy within one."""
    started: bool
    given: Given


def copy_made(call: n.CallExpr) -> Copy | None:
    """The copy that a call makes; none if it makes none."""
    name = function_name(call)
    made = name.rpartition(".")[2]
    if made not in _MADE or not name.startswith(("jax.", "typedpallas.")):
        return None
    if made == "copy" and not name.startswith("typedpallas."):
        return None
    given = {_NAMES.get(key, key): value for key, value in (arguments(call, _MADE[made]) or {}).items()}
    if "src_sem" in given:
        return None  # newer JAX: one semaphore for each end
    remote = _MADE[made] is _REMOTE
    semaphore = given.get("send_sem" if remote else "sem")
    if semaphore is None or not {"src_ref", "dst_ref"} <= given.keys() or (remote and "recv_sem" not in given):
        return None
    return Copy(call, given["src_ref"], given["dst_ref"], semaphore, given.get("recv_sem"), made in _STARTED, {})
