"""Every use of a ref in a kernel's body, its indices as terms, and how the walk came there."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from typedpallas.starts.terms import Leaf, Term
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ranges import control as ranges_control
from typedpallas.tracing.ranges import devices as ranges_devices
from typedpallas.tracing.ranges import numbers as ranges_numbers
from typedpallas.tracing.ranges.frames import Buffer, Device, Frame, Op, Part, Use, Walk, handles
from typedpallas.tracing.ranges.points import Path
from typedpallas.tracing.walk import KernelCall, Operand

__all__ = ["ranges_control", "walked"]

type _Ref = tuple[Op, Any, Sequence[Any], bool]
"""How a ref is used, its variable, its views, and whether a mask leaves elements out."""

_DATA_OPERANDS = 2
"""A copy has its source and its destination first, then semaphores."""


def walked(kernel: KernelCall) -> Walk:
    """A walk through the kernel's body with every use of a ref, in program order; none if its grid has no steps."""
    if 0 in kernel.grid:
        return Walk((), kernel.backend)
    mapping = kernel.eqn.params.get("grid_mapping")
    hidden = tuple(mapping.vmapped_dims) if mapping is not None else ()
    extents = [extent for axis, extent in enumerate(kernel.grid) if axis not in hidden]
    programs = [
        Leaf(f"program_id({axis})", 0, None if extent is None else extent - 1, known=extent is not None)
        for axis, extent in enumerate(extents)
    ]
    walk = Walk(programs, kernel.backend, axes=ranges_devices.mesh_axes(kernel))
    refs = {var: _buffer(op) for var, op in zip(kernel.jaxpr.invars, kernel.operands, strict=True)}
    certain = all(extent is not None for extent in kernel.grid)
    walk.run(kernel.jaxpr, Frame({}, refs, Path(certain=certain)))
    return walk


def _buffer(operand: Operand) -> Buffer:
    block = operand.block
    if block is None:
        return Buffer.whole(operand.name, operand.space, operand.dtype, operand.shape)
    extents = tuple(1 if dim == "squeezed" else dim for dim in block if dim == "squeezed" or isinstance(dim, int))
    axes = tuple(axis for axis, dim in enumerate(block) if dim != "squeezed")
    if len(extents) < len(block) or len(axes) != len(operand.shape or ()):
        return Buffer(operand.name, operand.space, operand.dtype, None)
    rows = operand.array[-2] if operand.array is not None and len(operand.array) > 1 else None
    memory = tuple(extent for extent in extents if isinstance(extent, int))
    return Buffer(operand.name, operand.space, operand.dtype, memory, axes, rows)


@handles("program_id")
def _program_id(walk: Walk, eqn: Any, frame: Frame) -> None:
    frame.store(eqn.outvars, [walk.terms.program(walk.programs[eqn.params["axis"]])])


@handles("axis_index")
def _axis_index(walk: Walk, eqn: Any, frame: Frame) -> None:
    """Somewhere in the mesh it is each of the axis's numbers."""
    name = eqn.params["axis_name"]
    if name in walk.axes:
        if name not in walk.places:
            walk.places[name] = Leaf(f'axis_index("{name}")', 0, walk.axes[name] - 1, known=True)
        frame.store(eqn.outvars, [walk.terms.program(walk.places[name])])


@handles("num_programs")
def _num_programs(walk: Walk, eqn: Any, frame: Frame) -> None:
    last = walk.programs[eqn.params["axis"]].high
    frame.store(eqn.outvars, [walk.terms.unknown() if last is None else walk.terms.const(last + 1)])


@handles("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
def _call(walk: Walk, eqn: Any, frame: Frame) -> None:
    for inner in jaxapi.inner_jaxprs(eqn):
        if len(inner.invars) == len(eqn.invars) and len(inner.outvars) == len(eqn.outvars):
            frame.store(eqn.outvars, walk.run(inner, frame.entered(walk.terms, inner.invars, eqn.invars)))
            return


@handles("run_scoped")
def _scoped(walk: Walk, eqn: Any, frame: Frame) -> None:
    inner = next(iter(jaxapi.inner_jaxprs(eqn)))
    entered = frame.entered(walk.terms, inner.constvars, eqn.invars)
    names = inner.debug_info.arg_names or ()
    for number, var in enumerate(inner.invars):
        name = names[number] if len(names) == len(inner.invars) else f"scoped[{number}]"
        space = jaxapi.space_of(var.aval, walk.backend)
        entered.refs[var] = Buffer.whole(name, space, jaxapi.dtype_name(var.aval), jaxapi.shape_of(var.aval))
    results = walk.run(inner, entered)
    if len(results) == len(eqn.outvars):
        frame.store(eqn.outvars, results)


@handles("get")
def _get(walk: Walk, eqn: Any, frame: Frame) -> None:
    views = eqn.params["tree"].unflatten(eqn.invars[1:])
    _use(walk, eqn, frame, [("load", eqn.invars[0], views, False)])


@handles("swap", "addupdate")
def _swap(walk: Walk, eqn: Any, frame: Frame) -> None:
    views = eqn.params["tree"].unflatten(eqn.invars[2:])
    _use(walk, eqn, frame, [("store", eqn.invars[0], views, False)])


@handles("masked_load")
def _masked_load(walk: Walk, eqn: Any, frame: Frame) -> None:
    ref, views, mask, _ = eqn.params["args_tree"].unflatten(eqn.invars)
    _use(walk, eqn, frame, [("load", ref, views, mask is not None)])


@handles("masked_swap")
def _masked_swap(walk: Walk, eqn: Any, frame: Frame) -> None:
    ref, views, _, mask = eqn.params["args_tree"].unflatten(eqn.invars)
    _use(walk, eqn, frame, [("store", ref, views, mask is not None)])


@handles("dma_start", "dma_wait")
def _copy(walk: Walk, eqn: Any, frame: Frame) -> None:
    *parts, device = eqn.params["tree"].unflatten(eqn.invars)
    if eqn.primitive.name == "dma_start":
        _device(walk, eqn, frame, device)
    _use(
        walk,
        eqn,
        frame,
        [
            ("copy" if number < _DATA_OPERANDS else "signal", getattr(part, "ref", part), _views(part), False)
            for number, part in enumerate(parts)
            if part is not None
        ],
    )


def _views(ref: Any) -> Sequence[Any]:
    return tuple(getattr(ref, "transforms", ()))


@handles("semaphore_signal", "semaphore_wait", "semaphore_read")
def _signal(walk: Walk, eqn: Any, frame: Frame) -> None:
    tree = eqn.params.get("args_tree")
    parts: Sequence[Any] = () if tree is None else tree.unflatten(eqn.invars)
    if eqn.primitive.name == "semaphore_signal":
        _device(walk, eqn, frame, parts[3])
    if len(parts) > 1 and isinstance(parts[1], tuple | list):
        _use(walk, eqn, frame, [("signal", parts[0], parts[1], False)])
    elif parts and hasattr(parts[0], "transforms"):
        _use(walk, eqn, frame, [("signal", parts[0].ref, _views(parts[0]), False)])


def _device(walk: Walk, eqn: Any, frame: Frame, device: Any) -> None:
    """The device that a copy or a signal goes to; none is the one that the kernel runs on."""
    if device is None or walk.silent:
        return
    by_mesh = getattr(eqn.params.get("device_id_type"), "value", None) == "mesh"
    named = isinstance(device, dict)
    if named:
        ids = tuple(device.items())
    else:
        coordinates = jax.tree.leaves(device)
        ids = tuple(enumerate(coordinates)) if by_mesh else tuple((None, part) for part in coordinates)
    walk.devices.append(Device(eqn, tuple((axis, _term(walk, frame, part)) for axis, part in ids), named, frame.path))


def _use(walk: Walk, eqn: Any, frame: Frame, refs: Sequence[_Ref]) -> None:
    frame.store(eqn.outvars, [walk.terms.data() for _ in eqn.outvars])
    if walk.silent:
        return
    for op, ref, transforms, masked in refs:
        buffer = frame.refs.get(ref)
        if buffer is not None:
            views = tuple(taken(walk, frame, transforms))
            walk.uses.append(
                Use(
                    op,
                    eqn,
                    buffer,
                    views,
                    len(views) == len(transforms),
                    masked,
                    frame.path,
                    walk.jaxpr,
                    tuple(walk.around[:-1]),
                )
            )


def taken(walk: Walk, frame: Frame, transforms: Sequence[Any]) -> Iterator[tuple[Part, ...]]:
    """The indices among a ref's views, up to the first view that is no index."""
    for transform in transforms:
        if not hasattr(transform, "indices"):
            return
        extents = jaxapi.shape_of(transform) or ()
        indices = zip(transform.indices, extents, strict=True)
        yield tuple(_part(walk, frame, index, extent) for index, extent in indices)


def _part(walk: Walk, frame: Frame, index: Any, extent: int | None) -> Part:
    if hasattr(index, "start"):
        size = index.size if isinstance(index.size, int) else None
        sized = None if size is not None else _term(walk, frame, index.size)
        atoms = (index.start, index.size)
        return Part(_term(walk, frame, index.start), size, index.stride, False, extent, sized, atoms)
    return Part(_term(walk, frame, index), 1, 1, True, extent, atoms=(index, None))


def _term(walk: Walk, frame: Frame, value: Any) -> Term | None:
    if hasattr(value, "aval"):
        return frame.read(walk.terms, value) if ranges_numbers.is_number(value.aval) else None
    number = ranges_numbers.literal(value)
    return None if number is None else walk.terms.const(number)
