"""Every private part of JAX that tracing needs, in one place. Checked against JAX 0.11.2 and 0.12.0.1.

Classes of the Pallas backends are told apart by their module's name, so that no backend is imported (Mosaic GPU's
needs a library that CPU-only machines may lack).
"""

import functools
import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax._src import source_info_util, xla_bridge
from jax._src.pallas import core as pallas_core

import typedpallas
from typedpallas import gpu, spaces, tpu
from typedpallas.diagnostics import Place
from typedpallas.events import Backend
from typedpallas.spaces import MemorySpace

PALLAS = "jax._src.pallas."
_HERE = os.path.dirname(typedpallas.__file__) + os.sep
_KERNELS = os.path.join(_HERE, "kernels") + os.sep


def _lowering_tables(backend: Backend, semantics: Any) -> Iterable[Any]:
    """The tables in which a backend's own lowering looks up primitives, one for each kind of core or thread.

    They grow when a module that brings primitives is imported, so they are read afresh each time. ``semantics``:
    which of Mosaic GPU's two lowerings; none where that is not known.
    """
    if backend == "triton":
        from jax._src.pallas.triton import lowering as triton

        return (triton.triton_lowering_rules,)
    if backend == "mosaic_tpu":
        from jax._src.pallas.mosaic import lowering as mosaic

        return mosaic.lowering_rules.values()
    from jax._src.pallas.mosaic_gpu import lowering as mosaic_gpu

    tables = mosaic_gpu.mosaic_lowering_rules
    # Two enumerations of one name are about: parameters carry the one, the tables' keys the other.
    asked = getattr(semantics, "name", None)
    chosen = [table for (how, _), table in tables.items() if how.name == asked]
    return chosen or tables.values()


def has_lowering(eqn: Any, backend: Backend | None, semantics: Any = None) -> bool | None:
    """Whether the backend has a lowering rule for an equation.

    None if no backend is known or it is not installed, and for operations on refs, which some backends rewrite first.
    """
    if backend is None or any(is_ref(atom.aval) for atom in eqn.invars):
        return None
    try:
        return any(eqn.primitive in table for table in _lowering_tables(backend, semantics))
    except ImportError:
        return None


def is_known_on_refs(eqn: Any) -> bool:
    """Whether JAX, or a backend of Pallas that is installed, has a meaning for an operation on refs."""
    from jax._src.state import discharge

    if eqn.primitive in discharge._discharge_rules:
        return True
    for backend in ("mosaic_tpu", "mosaic_gpu", "triton"):
        try:
            if any(eqn.primitive in table for table in _lowering_tables(backend, None)):
                return True
        except ImportError:
            return True
    return False


def calls_lowered(params: Any) -> bool | None:
    """Whether JAX lowers a ``pallas_call`` with these compiler parameters for a GPU; none where it does not say.

    From JAX 0.11 on it has no lowering for Mosaic GPU's: that backend only has ``plgpu.kernel``.
    """
    rule = getattr(pallas_core, "get_lowering_rule", None)
    if rule is None or _backend_of_class(params) != "mosaic_gpu":
        return None
    try:
        importlib.import_module(PALLAS + "mosaic_gpu.pallas_call_registration")
    except ImportError:
        return None
    return rule(type(params), "gpu") is not None


def dynamic_grid(eqn: Any) -> tuple[Any, ...]:
    """The types of the grid bounds that are known only when a ``pallas_call`` runs."""
    mapping = eqn.params.get("grid_mapping")
    return () if mapping is None else tuple(v.aval for v in eqn.invars[: mapping.num_dynamic_grid_bounds])


def index_map_results(mapping: Any) -> tuple[Any, ...]:
    """The types of what the index map of a `BlockMapping` returns."""
    return tuple(atom.aval for atom in open_jaxpr(mapping.index_map_jaxpr).outvars)


def index_dtypes(eqn: Any) -> tuple[str, ...]:
    """The element types of the arrays and traced scalars in an access's index, masks and values left out."""
    tree = eqn.params.get("args_tree")
    if tree is not None:
        parts = tree.unflatten(eqn.invars)
        leaves = jax.tree.leaves(parts[1])
    else:
        leaves = eqn.invars[1 if eqn.primitive.name == "get" else 2 :]
    return tuple(name for leaf in leaves if hasattr(leaf, "aval") and (name := dtype_name(leaf.aval)) is not None)


def open_jaxpr(jaxpr: Any) -> Any:
    """The `Jaxpr` in what may be a `ClosedJaxpr` (JAX 0.12 has only the former)."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def trace(fn: Callable[..., Any], avals: tuple[Any, ...]) -> Any:
    """The jaxpr of ``fn`` on shapes, with its constants; ``avals`` may be pytrees."""
    return jax.make_jaxpr(fn)(*avals)


def constants(jaxpr: Any) -> dict[Any, Any]:
    """What a jaxpr's constant variables hold, as far as it carries that with it."""
    return dict(zip(open_jaxpr(jaxpr).constvars, getattr(jaxpr, "consts", ()), strict=False))


def constants_inside(eqn: Any) -> dict[Any, Any]:
    """`constants` of every jaxpr among an equation's parameters."""
    found: dict[Any, Any] = {}
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if is_jaxpr(item):
                found |= constants(item)
    return found


def concrete(leaf: Any) -> Any:
    """The numbers in an argument of a call, as a numpy array; none where it only has a shape."""
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float):
        return None
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended):
        return None
    return leaf


def contents(arguments: tuple[Any, ...]) -> list[Any]:
    """`concrete` of every leaf of a call's arguments, in the order of its jaxpr's inputs."""
    return [concrete(leaf) for leaf in jax.tree.leaves(arguments)]


def argument_name(jaxpr: Any, var: Any) -> str | None:
    """The name of an input of a jaxpr; none for any other variable."""
    names = tuple(jaxpr.debug_info.arg_names or ())
    if var not in jaxpr.invars:
        return None
    number = jaxpr.invars.index(var)
    return names[number] if len(names) == len(jaxpr.invars) else f"args[{number}]"


def bound(eqn: Any, operands: Sequence[Any], **changed: Any) -> Sequence[Any]:
    """An equation, run on arrays; ``changed`` parameters stand for its own."""
    params = eqn.primitive.get_bind_params({**eqn.params, **changed})
    found = jax.jit(lambda *arrays: eqn.primitive.bind(*arrays, **params))(*operands)
    return tuple(found) if eqn.primitive.multiple_results else (found,)


def computed(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """What an equation makes of these arrays, worked out on this machine's CPU by JAX itself."""
    with jax.ensure_compile_time_eval(), jax.default_device(xla_bridge.local_devices(backend="cpu")[0]):
        found = eqn.primitive.bind(*operands, **eqn.params)
    return tuple(found) if eqn.primitive.multiple_results else (found,)


def is_jaxpr(value: Any) -> bool:
    """Whether it is a jaxpr, open or closed."""
    return hasattr(open_jaxpr(value), "eqns") and hasattr(open_jaxpr(value), "invars")


_NO_JAXPRS: set[type] = {int, bool, str, float, type(None), np.dtype}
"""Types of parameters that are no jaxprs, learnt as they come: this is asked of every equation, many times."""


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """Every jaxpr among an equation's parameters, in their order."""
    for value in eqn.params.values():
        if type(value) in _NO_JAXPRS:
            continue
        for item in value if isinstance(value, tuple | list) else (value,):
            if type(item) in _NO_JAXPRS:
                continue
            if is_jaxpr(item):
                yield open_jaxpr(item)
            elif not isinstance(item, tuple | list):
                _NO_JAXPRS.add(type(item))


def accessed(eqn: Any) -> tuple[Any, Any]:
    """The ref and the stored value (none for a load) among the operands of an access.

    Masked accesses carry a tree of operands; the others have the ref, and then the value, in front.
    """
    tree = eqn.params.get("args_tree")
    if tree is not None:
        parts = tree.unflatten(eqn.invars)
        return parts[0], parts[2] if eqn.primitive.name == "masked_swap" else None
    return eqn.invars[0], None if eqn.primitive.name == "get" else eqn.invars[1]


def is_ref(aval: Any) -> bool:
    """Whether a type is that of a ref, not of an array."""
    return hasattr(aval, "inner_aval")


def is_literal(atom: Any) -> bool:
    """Whether an equation's operand is a constant written into it."""
    return hasattr(atom, "val")


def literal_value(atom: Any) -> Any:
    """The number that an operand is, if it is one number written into the equation; else none."""
    return atom.val if is_literal(atom) and np.ndim(atom.val) == 0 else None


def is_variable(part: Any) -> bool:
    """Whether a part of an index is a variable of the jaxpr, not a constant."""
    return hasattr(part, "aval") and not hasattr(part, "val")


def is_user_file(file: str) -> bool:
    """Whether a frame there is a person's code: neither JAX's nor the standard library's nor this package's own.

    The kernels that this package brings count as a person's code.
    """
    if file.startswith(_HERE) and not file.startswith(_KERNELS):
        return False
    return source_info_util.is_user_filename(file)


def place(eqn: Any) -> Place:
    """The innermost line of a person's code that made the equation; unknown if there is none."""
    for frame in source_info_util.user_frames(eqn.source_info.traceback):
        if is_user_file(frame.file_name):
            return Place(file=frame.file_name, line=frame.start_line, column=frame.start_column + 1)
    return Place()


def assigns_collective_ids() -> bool:
    """Whether JAX numbers the kernels that meet other devices by itself."""
    return str(getattr(jax.config, "jax_pallas_auto_assign_collective_ids", "no")) != "no"


def is_of_pipeline(eqn: Any) -> bool:
    """Whether JAX's own `emit_pipeline` made the equation, not the body that it was given."""
    for frame in eqn.source_info.traceback.frames if eqn.source_info.traceback is not None else ():
        if frame.file_name.endswith(_PIPELINE):
            return True
        if is_user_file(frame.file_name):
            return False
    return False


_PIPELINE = os.path.join("pallas", "mosaic", "pipeline.py")
_SOURCE = re.compile(r" at (?P<file>.+):(?P<line>\d+)$")


def place_of_function(source: str | None) -> Place:
    """The place in JAX's description of a function, ``name at file:line``."""
    found = _SOURCE.search(source or "")
    return Place(file=found["file"], line=int(found["line"])) if found else Place()


def place_of_kernel(eqn: Any, jaxpr: Any) -> Place:
    """The line that launches a kernel; the kernel's own where no line of a person's code does."""
    found = place(eqn)
    return found if found.file else place_of_function(source_of_body(jaxpr))


def source_of_body(jaxpr: Any) -> str | None:
    """A kernel's function, as JAX writes it: ``name at file:line``.

    Mosaic GPU wraps it in a function of its own, whose ``run_scoped`` makes the scratch memory.
    """
    source: str | None = jaxpr.debug_info.func_src_info
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive.name != "run_scoped":
        return source
    inside = next(inner_jaxprs(jaxpr.eqns[0])).debug_info.func_src_info
    return source if is_user_file(place_of_function(source).file) else inside or source


def _backend_of_class(value: Any) -> Backend | None:
    module = type(value).__module__
    for package, backend in _BACKENDS.items():
        if module.startswith(package):
            return backend
    return None


_BACKENDS: dict[str, Backend] = {
    PALLAS + "mosaic_gpu": "mosaic_gpu",
    PALLAS + "mosaic": "mosaic_tpu",
    PALLAS + "triton": "triton",
}


def backend_of(*values: Any) -> Backend | None:
    """The backend whose package defines the class of one of these (compiler parameters, a mesh, a memory space)."""
    return next((found for value in values if (found := _backend_of_class(value))), None)


def is_sparse_core(mesh: Any) -> bool:
    """Whether a mesh is one of SparseCore's subcores."""
    return type(mesh).__module__ == PALLAS + "mosaic.sc_core"


def is_tensor_core_mesh(mesh: Any) -> bool:
    """Whether a mesh is of whole TensorCores."""
    return type(mesh).__name__ == "TensorCoreMesh"


def memory_space(aval: Any) -> Any:
    """JAX's memory space of a ref's type; none if it says nothing."""
    return getattr(aval, "memory_space", None)


_TPU = {
    "vmem": tpu.VMEM,
    "smem": tpu.SMEM,
    "hbm": tpu.HBM,
    "cmem": tpu.CMEM,
    "vmem_shared": tpu.VMEM_SHARED,
}
_TPU_SEMAPHORES = {"dma_sem": tpu.DMA, "semaphore": tpu.REGULAR, "barrier_semaphore": tpu.BARRIER}
_GPU_BARRIERS = {"barrier": gpu.Barrier, "cluster_barrier": gpu.ClusterBarrier}
_GPU = {"gmem": gpu.GMEM, "smem": gpu.SMEM, "tmem": gpu.TMEM, "regs": gpu.REGS}
_DEFAULT: dict[Backend | None, type[MemorySpace]] = {
    None: spaces.BLOCK,
    "mosaic_tpu": tpu.VMEM,
    "mosaic_gpu": gpu.SMEM,
    "triton": gpu.GMEM,
}
_ANY: dict[Backend | None, type[MemorySpace] | None] = {
    None: None,
    "mosaic_tpu": tpu.ANY,
    "mosaic_gpu": gpu.GMEM,
    "triton": gpu.GMEM,
}


def space_of(aval: Any, backend: Backend | None) -> type[MemorySpace] | None:
    """The space of a ref's type; none where it is unknown, or is no space of this package's.

    Pallas's default and ``ANY`` become what the backend makes of them; Triton keeps everything in global memory.
    """
    space = memory_space(aval)
    name = str(getattr(space, "value", space))
    if backend == "triton":
        return gpu.GMEM
    if isinstance(space, pallas_core.MemorySpace):
        if name == "default":
            return _DEFAULT[backend]
        if name == "any":
            return _ANY[backend]
        return tpu.SMEM if backend in (None, "mosaic_tpu") else None
    return declared_space(aval)


def declared_space(aval: Any) -> type[MemorySpace] | None:
    """The machine's space that a ref's type names; none if it names none, or only Pallas's default or ``ANY``."""
    space = memory_space(aval)
    if space is jax.memory.Space.Host:
        return tpu.HOST
    name = str(getattr(space, "value", space))
    owner = _backend_of_class(space)
    if owner == "mosaic_tpu":
        return _TPU_SEMAPHORES.get(dtype_name(aval) or "") if name == "semaphore_mem" else _TPU.get(name)
    if owner == "mosaic_gpu":
        kind, dtype = type(aval).__name__, dtype_name(aval) or ""
        if dtype in _GPU_BARRIERS:
            return _GPU_BARRIERS[dtype]
        if dtype == "semaphore":
            return None
        return gpu.ACC if kind == "WGMMAAbstractAccumulatorRef" else _GPU.get(name)
    return None


def dtype_name(aval: Any) -> str | None:
    """JAX's name of an element type; none where the value has none."""
    dtype = getattr(aval, "dtype", None)
    return None if dtype is None else _name_of(dtype)


@functools.lru_cache(maxsize=256)
def _name_of(dtype: Any) -> str:
    return str(getattr(dtype, "name", dtype))


def shape_of(aval: Any) -> tuple[int | None, ...] | None:
    """The shape in elements; none for dims that are not numbers, or where there is no shape at all."""
    shape = getattr(aval, "shape", None)
    return None if shape is None else tuple(d if isinstance(d, int) else None for d in shape)


_BLOCK_KINDS: Mapping[str, Literal["plain", "element", "bounded", "squeezed"]] = {
    "Blocked": "plain",
    "Element": "element",
    "BoundedSlice": "bounded",
    "Squeezed": "squeezed",
}


def block_dims(mapping: Any) -> tuple[int | str | None, ...]:
    """The block of a `BlockMapping`: elements, ``"squeezed"``, or none for kinds that are no plain block."""
    return tuple(block_dim(dim) for dim in mapping.block_shape)


def block_kinds(mapping: Any) -> tuple[Literal["plain", "element", "bounded", "squeezed"], ...]:
    """How the map of a `BlockMapping` addresses each axis; empty if one of them is of a kind unknown here."""
    kinds = [_BLOCK_KINDS.get(type(dim).__name__) for dim in mapping.block_shape]
    return tuple(kind for kind in kinds if kind is not None) if None not in kinds else ()


def buffers_asked(mapping: Any) -> int | None:
    """The buffers that a ``pipeline_mode`` asks for; none without one, or where Pallas copies the array only once."""
    return None if mapping.has_trivial_window() else getattr(mapping.pipeline_mode, "buffer_count", None)


def block_dim(dim: Any) -> int | str | None:
    """One dim of a block, as in `block_dims`."""
    if isinstance(dim, pallas_core.Squeezed):
        return "squeezed"
    return dim.block_size if isinstance(dim, pallas_core.Blocked) and isinstance(dim.block_size, int) else None


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many of a scan's operands are constants, and how many it carries."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carried, _ = eqn.params["ft_in"].unpack()
    return len(tuple(consts)), len(tuple(carried))
