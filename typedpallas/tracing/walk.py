"""Find every kernel in a traced function, and put what JAX knows of it in one form."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from typedpallas.chips import Target
from typedpallas.diagnostics import Place
from typedpallas.events import Backend
from typedpallas.spaces import MemorySpace
from typedpallas.tracing import declared, jaxapi

type Role = Literal["prefetch", "in", "out", "scratch"]


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One ref that the kernel gets. Shapes in elements; none where unknown."""

    name: str
    """The kernel's parameter, as far as JAX knows it."""
    role: Role
    origin: str
    """Where Pallas says it comes from: ``args[0]``, ``outputs``; empty if it does not say."""
    aval: Any
    """JAX's type of the ref."""
    space: type[MemorySpace] | None
    """Where the backend puts it."""
    declared_space: type[MemorySpace] | None
    """What the launch asks for, whatever the backend makes of it; none if it asks for nothing."""
    dtype: str | None
    shape: tuple[int | None, ...] | None
    """What the kernel sees: the block without its squeezed dims."""
    block: tuple[int | str | None, ...] | None = None
    """As in `jaxapi.block_dims`; none if the operand has no block."""
    array: tuple[int, ...] | None = None
    """The whole array."""
    mapping: Any = None
    """JAX's `BlockMapping`, or none."""


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """One kernel: a ``pallas_call``, or one program of ``pl.kernel`` / ``plgpu.kernel``."""

    name: str
    eqn: Any
    jaxpr: Any
    """The body; its ``invars`` are ``operands``, in order."""
    grid: tuple[int | None, ...]
    """Steps along each axis; none where known only when it runs."""
    operands: tuple[Operand, ...]
    compiler_params: Any
    place: Place
    backend: Backend | None
    """None where neither parameters, spaces nor the target tell."""
    named_backend: Backend | None
    """The backend that the kernel's compiler parameters or mesh belong to; none if it has neither."""
    source: str | None
    """Its function, as JAX writes it: ``name at file:line``."""
    aliases: tuple[tuple[int, int], ...] = ()
    """Input to output positions, as Pallas counts them."""
    mesh: Any = None
    """The mesh of a ``pl.kernel`` program."""
    interpret: bool = False
    """Whether it asks for interpret mode by itself."""
    path: tuple[tuple[Any, Any], ...] = ()
    """The jaxprs around it, outermost first, each with the equation that leads on; the last is the kernel's own.
    Empty where its surroundings are not known, and for programs of a mesh."""
    around: tuple[tuple[Any, Any], ...] = ()
    """The same for a program of a mesh."""
    known: Mapping[Any, Any] = field(default_factory=dict, compare=False)
    """Variables on the path that stand for arrays whose contents are known: constants, arguments that were given."""
    assumed: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    """What the entries of tables are taken to lie between, both included, by the names of the kernel's refs."""
    _answers: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once[T](self, question: "Callable[[KernelCall], T]") -> T:
        """What a function says about this kernel, asked once: several parts of the check want to know the same."""
        if question not in self._answers:
            self._answers[question] = question(self)
        answer: T = self._answers[question]
        return answer

    def foreign(self, target: Target | None) -> bool:
        """Whether it names a backend that does not serve the target."""
        if target is None or self.named_backend is None:
            return False
        return (self.named_backend == "mosaic_tpu") != (target.machine == "tpu")

    @property
    def understood(self) -> bool:
        """Whether its body runs on a machine that the rule book describes (SparseCore's it does not)."""
        return not jaxapi.is_sparse_core(self.mesh)


def kernels(
    jaxpr: Any,
    backend: Backend | None = None,
    outer: tuple[tuple[Any, Any], ...] = (),
    known: Mapping[Any, Any] | None = None,
) -> Iterator[KernelCall]:
    """Every kernel in a jaxpr, outer to inner, in order.

    Args:
        jaxpr: where to look.
        backend: for kernels that do not tell their own.
        outer: the jaxprs around it, as in `KernelCall.path`.
        known: variables of it and of those around it whose contents are known.
    """
    opened, known = jaxapi.open_jaxpr(jaxpr), {**(known or {}), **jaxapi.constants(jaxpr)}
    for eqn in opened.eqns:
        kind, path = eqn.primitive.name, (*outer, (opened, eqn))
        if kind == "pallas_call":
            yield replace(_pallas_call(eqn, backend), path=path, known=known)
        elif kind == "mpmd_map":
            found = _programs(eqn, eqn.params["jaxprs"], eqn.params["meshes"], backend)
            yield from (replace(kernel, around=path, known=known) for kernel in found)
        elif kind == "core_map":
            found = _programs(eqn, (eqn.params["jaxpr"],), (eqn.params["mesh"],), backend)
            yield from (replace(kernel, around=path, known=known) for kernel in found)
        else:
            inside = {**known, **jaxapi.constants_inside(eqn)}
            for inner in jaxapi.inner_jaxprs(eqn):
                yield from kernels(inner, backend, path, inside)


def call_of(eqn: Any) -> KernelCall:
    """The kernel of one ``pallas_call``, with nothing around it."""
    return _pallas_call(eqn, None)


def _name(eqn: Any, jaxpr: Any) -> str:
    given = eqn.params.get("name")
    info = jaxpr.debug_info
    return str(given or (info.func_src_info or "").split(" at ")[0] or "kernel")


def _parameter_names(jaxpr: Any) -> tuple[str, ...]:
    names = tuple(jaxpr.debug_info.arg_names or ())
    return names if len(names) == len(jaxpr.invars) else tuple(f"refs[{i}]" for i in range(len(jaxpr.invars)))


def _program_names(jaxpr: Any) -> tuple[str, ...]:
    """Parameter names of a program; Mosaic GPU hands operands on as ``*refs``, which come first in the function."""
    names = _parameter_names(jaxpr)
    own = declared.parameters(jaxapi.source_of_body(jaxpr))
    return own[: len(names)] if names[:1] == ("refs[0]",) and len(own) >= len(names) else names


def _backend_of_spaces(jaxpr: Any) -> Backend | None:
    """What the spaces of a kernel's refs say, for want of anything better: Triton takes any space's name."""
    return jaxapi.backend_of(*(jaxapi.memory_space(v.aval) for v in jaxpr.invars))


def _pallas_call(eqn: Any, backend: Backend | None) -> KernelCall:
    jaxpr = jaxapi.open_jaxpr(eqn.params["jaxpr"])
    mapping = eqn.params["grid_mapping"]
    named = jaxapi.backend_of(eqn.params["compiler_params"])
    backend = named or backend or _backend_of_spaces(jaxpr)
    blocks = [None] * mapping.num_index_operands + list(mapping.block_mappings)
    blocks += [None] * len(mapping.scratch_avals)
    operands = [
        _operand(name, role, var.aval, block, backend)
        for name, role, var, block in zip(_parameter_names(jaxpr), _roles(mapping), jaxpr.invars, blocks, strict=True)
    ]
    return KernelCall(
        name=_name(eqn, jaxpr),
        eqn=eqn,
        jaxpr=jaxpr,
        grid=tuple(d if isinstance(d, int) else None for d in mapping.grid),
        operands=tuple(operands),
        compiler_params=eqn.params["compiler_params"],
        place=jaxapi.place_of_kernel(eqn, jaxpr),
        backend=backend,
        named_backend=named,
        source=jaxpr.debug_info.func_src_info,
        aliases=tuple(eqn.params["input_output_aliases"]),
        interpret=bool(eqn.params["interpret"]),
    )


def _roles(mapping: Any) -> Iterator[Role]:
    yield from itertools.repeat("prefetch", mapping.num_index_operands)
    yield from itertools.repeat("in", mapping.num_inputs)
    yield from itertools.repeat("out", mapping.num_outputs)
    yield from itertools.repeat("scratch", len(mapping.scratch_avals))


def _operand(name: str, role: Role, aval: Any, mapping: Any, backend: Backend | None) -> Operand:
    return Operand(
        name=name,
        role=role,
        origin=str(mapping.origin) if mapping is not None else "",
        aval=aval,
        space=jaxapi.space_of(aval, backend),
        declared_space=jaxapi.declared_space(aval),
        dtype=jaxapi.dtype_name(aval),
        shape=jaxapi.shape_of(aval),
        block=jaxapi.block_dims(mapping) if mapping is not None else None,
        array=tuple(mapping.array_aval.shape) if mapping is not None else None,
        mapping=mapping,
    )


def _programs(eqn: Any, jaxprs: Any, meshes: Any, backend: Backend | None) -> Iterator[KernelCall]:
    """The programs of a ``pl.kernel``, one for each mesh; they have no blocks."""
    for body, mesh in zip(jaxprs, meshes, strict=True):
        jaxpr = jaxapi.open_jaxpr(body)
        named = jaxapi.backend_of(mesh, eqn.params.get("compiler_params"))
        own = named or backend or _backend_of_spaces(jaxpr)
        first_out = len(eqn.invars)
        first_scratch = first_out + len(eqn.params.get("out_avals", ()))
        roles: list[Role] = ["in" if i < first_out else "out" for i in range(first_scratch)]
        roles += ["scratch"] * len(jaxpr.invars)
        yield KernelCall(
            name=_name(eqn, jaxpr),
            eqn=eqn,
            jaxpr=jaxpr,
            grid=(),
            operands=tuple(
                _operand(name, role, var.aval, None, own)
                for name, role, var in zip(_program_names(jaxpr), roles, jaxpr.invars, strict=False)
            ),
            compiler_params=eqn.params.get("compiler_params"),
            place=jaxapi.place_of_kernel(eqn, jaxpr),
            backend=own,
            named_backend=named,
            source=jaxapi.source_of_body(jaxpr),
            mesh=mesh,
            interpret=bool(eqn.params.get("interpret")),
        )
