"""What an exception's traceback tells of a trace that failed. The other half of `jaxapi`: private parts of JAX."""

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from jax._src import config

from typedpallas.diagnostics import Place
from typedpallas.tracing import jaxapi


def whole_tracebacks() -> Any:
    """A context in which JAX leaves its own frames in tracebacks: they tell where Pallas refused something."""
    return config.traceback_filtering("off")


def _frames(error: BaseException) -> Iterator[TracebackType]:
    """From the outermost to the innermost."""
    frame = error.__traceback__
    while frame is not None:
        yield frame
        frame = frame.tb_next


def place_of_error(error: BaseException) -> tuple[Place, str]:
    """The innermost line of a person's code in an exception's traceback, and the text that was evaluated there.

    Unknown and empty if there is none.
    """
    found, text = Place(), ""
    for frame in _frames(error):
        code = frame.tb_frame.f_code
        generated = code.co_filename == "<string>" and code.co_name == "__init__"  # a dataclass's
        if jaxapi.is_user_file(code.co_filename) and not generated:
            line, end, start, stop = list(code.co_positions())[frame.tb_lasti // 2]
            found = Place(file=code.co_filename, line=frame.tb_lineno, column=(start or 0) + 1)
            written = linecache.getline(code.co_filename, line or 0)
            text = written[start:stop] if line == end else written[start:].rstrip()
    return found if found.file else _kernel_being_traced(error), text


def _kernel_being_traced(error: BaseException) -> Place:
    for frame in _frames(error):
        info = frame.tb_frame.f_locals.get("kernel_dbg")
        if info is not None:
            return jaxapi.place_of_function(getattr(info, "func_src_info", None))
    return Place()


def kernel_of_error(error: BaseException) -> str | None:
    """The kernel that was being traced when it was raised, with its place; none if none was, or it has no name."""
    found = None
    for frame in _frames(error):
        names = frame.tb_frame.f_locals
        infos = [names.get("kernel_dbg"), *(names.get("debug_infos") or ())]
        sources = [str(getattr(info, "func_src_info", None) or "") for info in infos]
        if frame.tb_frame.f_globals.get("__name__") == jaxapi.PALLAS + "mosaic_gpu.core":
            sources.append(_source(names.get("body")))
        for source in sources:
            place = jaxapi.place_of_function(source)
            if place.file and (jaxapi.is_user_file(place.file) or found is None):
                found = source
    return found


def _source(function: Any) -> str:
    """A function as JAX writes it: ``name at file:line``; empty for what is no function."""
    while hasattr(function, "func"):
        function = function.func
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{function.__name__} at {code.co_filename}:{code.co_firstlineno}"


def in_kernel(error: BaseException) -> bool:
    """Whether Pallas was tracing a kernel's body, or an index map, when it was raised.

    Needs JAX's frames in the traceback.
    """
    inside = False
    for frame in _frames(error):
        if frame.tb_frame.f_globals.get("__name__", "") in _TRACERS:
            inside = True
    return inside


_TRACERS = (jaxapi.PALLAS + "pallas_call", jaxapi.PALLAS + "mpmd", jaxapi.PALLAS + "core")


@dataclass(frozen=True)
class MapBeingTraced:
    """The operand whose index map Pallas was tracing when it raised. ``block`` as in `jaxapi.block_dims`."""

    origin: str
    block: tuple[int | str | None, ...]
    array: tuple[int, ...]
    grid: tuple[int | None, ...]
    function: Any
    """The map as the user wrote it; none for Pallas's own."""
    takes: int
    """How many arguments the map must be able to take: the grid's ids, then the prefetched scalars."""


def map_being_traced(error: BaseException) -> MapBeingTraced | None:
    """Read off the locals of `BlockSpec.to_block_mapping`'s frame; none if it is not in the traceback."""
    for frame in _frames(error):
        if frame.tb_frame.f_code.co_name == "to_block_mapping":
            names = frame.tb_frame.f_locals
            if {"self", "origin", "array_aval", "grid", "block_shape", "index_map_avals"} <= names.keys():
                return MapBeingTraced(
                    origin=str(names["origin"]),
                    block=tuple(jaxapi.block_dim(dim) for dim in names["block_shape"]),
                    array=tuple(names["array_aval"].shape),
                    grid=tuple(d if isinstance(d, int) else None for d in names["grid"]),
                    function=getattr(names["self"].index_map, "index_map", None),
                    takes=len(names["index_map_avals"]),
                )
    return None


def kernel_being_called(error: BaseException) -> tuple[Any, int, int, int] | None:
    """The function that Pallas failed to call, and how many inputs, outputs and scratch buffers it was to get.

    None where the failure is further in, or the refs are handed over as trees or by keyword.
    """
    frames = [frame.tb_frame for frame in _frames(error)]
    if len(frames) < 2 or jaxapi.is_user_file(frames[-1].f_code.co_filename):
        return None
    for frame in frames[-3:]:
        if frame.f_code.co_name == "_trace_kernel_to_jaxpr":
            names: dict[str, Any] = frame.f_locals
            if not {"grid_mapping", "kernel_avals", "fun"} <= names.keys():
                return None
            mapping, (args, kwargs) = names["grid_mapping"], names["kernel_avals"].unflatten()
            scratch = len(mapping.scratch_avals)
            counts = mapping.num_index_operands + mapping.num_inputs, mapping.num_outputs, scratch
            if not kwargs and len(args) == sum(counts):
                return names["fun"], *counts
    return None
