"""From a JAX function to the module that a target's compiler is given, on this machine's CPU."""

from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from typedpallas.chips import GpuTarget, Target, get
from typedpallas.compilers import jaxapi, kernel_text, reasons
from typedpallas.compilers.ambient import lowering_platform, no_target, target_context
from typedpallas.compilers.deadline import DeadlinePassed, run_within
from typedpallas.compilers.results import CompileError, Stage


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A function lowered for a target: what the vendor's compiler is given."""

    target: Target
    code: bytes = field(repr=False)
    """The StableHLO module as MLIR bytecode, source locations kept for the compiler's messages."""
    partitions: int
    """Devices that the module is written for."""
    options: dict[str, Any]
    """Compiler options that the function's ``jax.jit`` carries."""

    @property
    def text(self) -> str:
        """The StableHLO module as text, without source locations."""
        return jaxapi.text_without_locations(jaxapi.parse(self.code, jaxapi.new_context()))

    @property
    def kernels(self) -> list[kernel_text.KernelText]:
        """The Pallas kernels in it, each kernel's own module as text."""
        return kernel_text.kernels(self.code)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about verdicts on this target."""
        if isinstance(self.target, GpuTarget) and self.target.compiled_as:
            chip = self.target
            return (
                f"compiled as {chip.compiled_as}, of the same compute capability "
                f"{chip.compute_capability}: Pallas's Triton backend does not list {chip.device_kind}",
            )
        return ()


def lower_for(fn: Any, *avals: Any, target: str | Target, deadline: float = 120.0) -> Lowered:
    """Traces and lowers ``fn(*avals)`` for the target; no vendor's compiler is asked.

    `avals`: pytrees of ``jax.ShapeDtypeStruct``, or of arrays, of which only shape and dtype count, and the
    sharding where it is one over an ``AbstractMesh``. For several devices ``jax.shard_map`` takes
    `ambient.described_mesh`.
    `deadline`: seconds.

    Raises:
        CompileError: refused by Pallas, while tracing or lowering; timeout.
        typedpallas.chips.UnknownTarget: no such target.
        Exception: whatever the function itself raises while it is traced.
    """
    chip = get(target) if isinstance(target, str) else target
    shapes = jax.tree.map(_shape, avals)
    try:
        return run_within(deadline, lambda: _lower(fn, shapes, chip))
    except DeadlinePassed as error:
        reason = f"tracing and lowering did not end within {deadline:g} s"
        raise CompileError(kind="timeout", target=chip.name, reason=reason, stage="lower") from error


def _shape(leaf: Any) -> Any:
    return _on(leaf, _sharding(leaf))


def _sharding(leaf: Any) -> Any:
    """How the leaf lies on a mesh of described devices, where it says so; this machine's own do not count."""
    sharding = getattr(leaf, "sharding", None)
    return sharding if isinstance(getattr(sharding, "mesh", None), AbstractMesh) else None


def _on(leaf: Any, sharding: Any) -> Any:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    describe: Any = jax.ShapeDtypeStruct
    weak = getattr(leaf, "weak_type", False)
    return describe(leaf.shape, leaf.dtype, sharding=sharding, weak_type=weak)


def _lower(fn: Any, shapes: tuple[Any, ...], target: Target) -> Lowered:
    jitted = fn if hasattr(fn, "trace") and hasattr(fn, "lower") else jax.jit(fn)
    with target_context(target), jaxapi.whole_tracebacks():
        traced = _trace(jitted, shapes, target)
        mesh = jaxapi.mesh_inside(traced)
        if mesh is not None and not any(_sharding(leaf) for leaf in jax.tree.leaves(shapes)):
            # Without it JAX lowers for one device, which no compiler then takes.
            shapes = jax.tree.map(lambda leaf: _on(leaf, NamedSharding(mesh, PartitionSpec())), shapes)
            traced = _trace(jitted, shapes, target)
        try:
            lowered = traced.lower(lowering_platforms=(lowering_platform(target),))
        except Exception as error:
            raise _refusal(error, target, "lower") from error
    return Lowered(
        target=target,
        code=jaxapi.bytecode(lowered.compiler_ir()),
        partitions=jaxapi.partitions(lowered),
        options=jaxapi.compiler_options(lowered),
    )


def _trace(jitted: Any, shapes: tuple[Any, ...], target: Target) -> Any:
    """The traced function, in the target's context.

    An error of Pallas's own that the function meets only in this context is the target's refusal; one that
    it meets anywhere is a mistake in the function.
    """
    try:
        return jitted.trace(*shapes)
    except (ValueError, NotImplementedError) as error:
        if reasons.raised_by_pallas(error) and not _fails_alike_anywhere(jitted, shapes, error):
            raise _refusal(error, target, "trace") from error
        raise


def _fails_alike_anywhere(jitted: Any, shapes: tuple[Any, ...], error: Exception) -> bool:
    with no_target():
        try:
            jitted.trace(*shapes)
        except Exception as other:
            return type(other) is type(error) and str(other) == str(error)
    return False


def _refusal(error: Exception, target: Target, stage: Stage) -> CompileError:
    reason = reasons.of_exception(error)
    return CompileError(
        kind="refused",
        target=target.name,
        reason=reason.first,
        stage=stage,
        detail=reason.detail,
        where=reason.where,
    )
