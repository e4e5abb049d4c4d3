"""The shared memory of one block of a GPU kernel.

Mosaic GPU reserves what `gpu_resources` adds up, and a profile's events where the kernel asks for one.
Triton decides by itself what it keeps there. Asked about matrix products on a100, h100 and b200, it always held both
16-bit operands of a product at once, or the larger of two 32-bit ones, and in a loop as many copies as it has stages.
"""

import math
from collections.abc import Iterator
from typing import Any

from typedpallas import dtypes
from typedpallas.chips import GpuTarget
from typedpallas.events import MemoryItem, MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.gpu import resources as gpu_resources
from typedpallas.tracing.walk import KernelCall

_TENSOR_COLUMNS = 512
"""What a block of a Blackwell GPU has (CUDA's programming guide), 128 rows of 32 bits each."""
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
        needs = gpu_resources.of_kernel(kernel.jaxpr, kernel.compiler_params)
        if not needs.known:
            return None
        items = [*needs.items(), *_profile(kernel)]
    else:
        return None
    limit = target.shared_memory_bytes
    return MemoryUse(space="shared", items=tuple(items), limit=limit, limit_from=f"all that `{target.name}` has")


def _profile(kernel: KernelCall) -> list[MemoryItem]:
    """The events of a profile: each range has two, of two 32-bit entries; its start is a multiple of 8 bytes."""
    params = kernel.compiler_params
    ranges = getattr(params, "profile_space", 0)
    if not ranges:
        return []
    groups = getattr(kernel.mesh, "num_threads", None) or 1
    warps = 4 if str(getattr(params.profile_trace_scope, "value", "")) == "warp" else 1
    size = groups * warps * ranges * 16
    return [MemoryItem(name="profile", low=size, high=size + 4, how=f"{ranges} ranges")]


def tensor_use(kernel: KernelCall) -> MemoryUse | None:
    """The ledger of tensor memory, in columns; none where the kernel asks for none."""
    if kernel.backend != "mosaic_gpu":
        return None
    needs = gpu_resources.of_kernel(kernel.jaxpr, kernel.compiler_params)
    if not needs.known:
        return None
    return MemoryUse(space="tmem", items=needs.columns, limit=_TENSOR_COLUMNS, limit_from="all that there are")


def _item_bits(aval: Any) -> int | None:
    marker = dtypes.from_jax_name(jaxapi.dtype_name(aval) or "")
    return marker.bits if marker else None


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
