"""The shared memory of one block of a GPU kernel.

Mosaic GPU: the buffers in SMEM that a kernel asks for, each rounded up to 1024 bytes; scopes beside each other share.
Triton decides by itself what it keeps there. Asked about matrix products on a100, h100 and b200, it always held both
16-bit operands of a product at once, or the larger of two 32-bit ones, and in a loop as many copies as it has stages.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typedpallas import dtypes, gpu
from typedpallas.chips import GpuTarget
from typedpallas.events import MemoryItem, MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.walk import KernelCall

_ALIGNMENT = 1024
_BARRIER_BYTES = 8
_REDUCTION_BYTES = 2048
_TENSOR_MEMORY_BYTES = 4
"""What Mosaic GPU adds for the address of tensor memory."""
_TOGETHER = ("bfloat16", "float16")
_IN_TURN = ("float32",)
_LOADS = ("get", "masked_load")
_LOOPS = ("scan", "while")
_DEFAULT_STAGES = 3


def use(kernel: KernelCall, target: GpuTarget) -> MemoryUse | None:
    """The ledger; none where the kernel is known to need none, or where it is not understood."""
    if kernel.backend == "triton":
        items = _product(kernel)
    elif kernel.mesh is not None:
        items = _mosaic(kernel)
    else:
        return None
    limit = target.shared_memory_bytes
    return MemoryUse(space="shared", items=tuple(items), limit=limit, limit_from=f"all that `{target.name}` has")


@dataclass(frozen=True)
class _Buffer:
    name: str
    bytes: int
    how: str


def _mosaic(kernel: KernelCall) -> list[MemoryItem]:
    own = [_buffer(op.name, op.aval) for op in kernel.operands if op.role == "scratch"]
    buffers = [buffer for buffer in own if buffer is not None] + _deepest(kernel.jaxpr)
    items = [MemoryItem(name=b.name, low=b.bytes, high=b.bytes, how=b.how) for b in buffers]
    more = _TENSOR_MEMORY_BYTES + (_REDUCTION_BYTES if _reduces(kernel.jaxpr) else 0)
    return [*items, MemoryItem(name="the compiler", low=0, high=more, how="for itself")] if items else []


def _reduces(jaxpr: Any) -> bool:
    inner = (jaxpr for eqn in jaxpr.eqns for jaxpr in jaxapi.inner_jaxprs(eqn))
    return any(eqn.primitive.name.startswith("reduce_") for eqn in jaxpr.eqns) or any(map(_reduces, inner))


def _buffer(name: str, aval: Any) -> _Buffer | None:
    space = jaxapi.space_of(aval, "mosaic_gpu")
    shape = jaxapi.shape_of(aval)
    if shape is None or any(extent is None for extent in shape):
        return None
    count = math.prod(int(extent or 0) for extent in shape)
    written = f"({', '.join(map(str, shape))})"
    if space is gpu.Barrier:
        return _Buffer(name, _BARRIER_BYTES * max(count, 1), f"{max(count, 1)} barriers")
    size = _item_bits(aval)
    if space is not gpu.SMEM or size is None:
        return None
    needed = count * size // 8
    return _Buffer(name, -(-needed // _ALIGNMENT) * _ALIGNMENT, f"{written} x {size} bits")


def _item_bits(aval: Any) -> int | None:
    marker = dtypes.from_jax_name(jaxapi.dtype_name(aval) or "")
    return marker.bits if marker else None


def _deepest(jaxpr: Any) -> list[_Buffer]:
    """The scoped buffers that live together and cost most; scopes beside each other do not live together."""
    best: list[_Buffer] = []
    for eqn in jaxpr.eqns:
        for inner in jaxapi.inner_jaxprs(eqn):
            found = _deepest(inner)
            if eqn.primitive.name == "run_scoped":
                made = [_buffer(f"scoped[{i}]", var.aval) for i, var in enumerate(inner.invars)]
                found = [buffer for buffer in made if buffer is not None] + found
            if sum(b.bytes for b in found) > sum(b.bytes for b in best):
                best = found
    return best


def _product(kernel: KernelCall) -> list[MemoryItem]:
    """The operands of the matrix product that costs most."""
    stages = getattr(kernel.compiler_params, "num_stages", None) or _DEFAULT_STAGES
    names = {var: operand.name for var, operand in zip(kernel.jaxpr.invars, kernel.operands, strict=False)}
    found = list(_products(kernel.jaxpr, names, stages))
    return max(found, key=lambda items: sum(item.low for item in items), default=[])


def _products(jaxpr: Any, names: dict[Any, str], stages: int, looped: bool = False) -> Iterator[list[MemoryItem]]:
    made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            yield _operands(eqn, made, names, stages if looped else 1)
        for inner in jaxapi.inner_jaxprs(eqn):
            known = names | {var: names[atom] for var, atom in _passed(eqn, inner) if atom in names}
            yield from _products(inner, known, stages, looped or eqn.primitive.name in _LOOPS)


def _passed(eqn: Any, inner: Any) -> Iterator[tuple[Any, Any]]:
    """The refs that an equation hands to a jaxpr inside: the inner variable and the outer one."""
    outer = [atom for atom in eqn.invars if not jaxapi.is_literal(atom) and jaxapi.is_ref(atom.aval)]
    own = [var for var in inner.invars if jaxapi.is_ref(var.aval)]
    if len(outer) == len(own):
        yield from zip(own, outer, strict=True)


def _operands(eqn: Any, made: dict[Any, Any], names: dict[Any, str], copies: int) -> list[MemoryItem]:
    precision = eqn.params["precision"]
    chosen = precision if isinstance(precision, tuple) else (precision,)
    if any(str(part) not in ("None", "DEFAULT") for part in chosen):
        return []
    loaded = [atom for atom in dict.fromkeys(eqn.invars) if _is_loaded(atom, made)]
    items = [item for atom in loaded if (item := _operand(atom, made, names, copies)) is not None]
    dtype = jaxapi.dtype_name(eqn.invars[0].aval)
    if dtype in _TOGETHER:
        return items
    return [max(items, key=lambda item: item.low)] if dtype in _IN_TURN and items else []


def _is_loaded(atom: Any, made: dict[Any, Any]) -> bool:
    """Whether a value comes from memory as it is; one that was computed may stay in registers."""
    return not jaxapi.is_literal(atom) and atom in made and made[atom].primitive.name in _LOADS


def _operand(atom: Any, made: dict[Any, Any], names: dict[Any, str], copies: int) -> MemoryItem | None:
    shape, bits = jaxapi.shape_of(atom.aval), _item_bits(atom.aval)
    if shape is None or bits is None or any(extent is None for extent in shape):
        return None
    needed = math.prod(int(extent or 0) for extent in shape) * bits // 8
    written = f"a product's operand ({', '.join(map(str, shape))}) x {bits} bits"
    how = written if copies == 1 else f"up to {copies} stages of {written}"
    ref = jaxapi.accessed(made[atom])[0]
    return MemoryItem(name=names.get(ref, "operand"), low=needed, high=needed * copies, how=how)
