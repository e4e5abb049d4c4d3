"""The private parts of JAX that compiling needs, in one place.

Checked against JAX 0.11.2 and 0.12.0.1. Each function says why the public API does not do.
"""

import contextlib
import importlib
import io
from collections.abc import Iterator
from typing import Any

from jax.sharding import AbstractMesh


def _private(module: str) -> Any:
    """A module of JAX's that has no types to hold it to."""
    return importlib.import_module(f"jax._src.{module}")


config = _private("config")
core = _private("core")
mlir = _private("interpreters.mlir")
lib = _private("lib")
compiler = _private("compiler")
ir = _private("lib.mlir").ir
passmanager = _private("lib.mlir").passmanager
_dialects = [lib.mosaic_gpu_dialect, lib.tpu, _private("lib.triton").dialect]

MLIRError: type[Exception] = ir.MLIRError
"""What a module that does not parse or does not pass its passes comes as."""


def bytecode(module: Any) -> bytes:
    """The module as MLIR bytecode, source locations kept (``Lowered.as_text`` has only text)."""
    code: bytes = mlir.module_to_bytecode(module)
    return code


def new_context() -> Any:
    """An MLIR context that knows the dialects of StableHLO and of all three Pallas backends.

    JAX's own contexts are shared and must not be changed; ``ir.Context()`` reads Mosaic GPU's memory spaces
    wrongly.
    """
    context = mlir.JaxIrContext()
    context.append_dialect_registry(mlir.upstream_dialects)
    for dialect in _dialects:
        dialect.register_dialect(context)
    mlir.dialects.sdy.register_dialect(context)
    mlir.dialects.mhlo.register_mhlo_dialect(context)
    mlir.dialects.chlo.register_dialect(context)
    mlir.dialects.hlo.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    return context


def parse(code: bytes | str, context: Any) -> Any:
    """The module that this MLIR bytecode or text holds."""
    return ir.Module.parse(code, context=context)


def run_passes(module: Any, pipeline: str) -> None:
    """Runs a pass pipeline (``builtin.module(...)``) on the module in place."""
    passmanager.PassManager.parse(pipeline, module.context).run(module.operation)


def text_without_locations(module: Any) -> str:
    """The module's text, no source locations in it."""
    out = io.StringIO()
    module.operation.print(file=out, enable_debug_info=False)
    return out.getvalue()


def string_attribute(text: str, context: Any) -> Any:
    """An MLIR string attribute."""
    return ir.StringAttr.get(text, context=context)


def attribute_bytes(attribute: Any) -> bytes:
    """The bytes of an MLIR string attribute."""
    value: bytes = ir.StringAttr(attribute).value_bytes
    return value


def attribute_entries(attribute: Any) -> dict[str, Any]:
    """An MLIR dictionary attribute as a dictionary."""
    return {entry.name: entry.attr for entry in ir.DictAttr(attribute)}


def mesh_inside(traced: Any) -> AbstractMesh | None:
    """The abstract mesh that a traced function maps over with ``jax.shard_map``, or none."""
    for equation in _equations(traced.jaxpr):
        mesh = equation.params.get("mesh") if equation.primitive.name == "shard_map" else None
        if isinstance(mesh, AbstractMesh):
            return mesh
    return None


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for inner in core.jaxprs_in_params(equation.params):
            yield from _equations(inner)


def partitions(lowered: Any) -> int:
    """How many devices the lowered module is written for."""
    count: int = lowered._lowering.compile_args["num_devices"]
    return count


def compiler_options(lowered: Any) -> dict[str, Any]:
    """The compiler options that the function's ``jax.jit`` carries."""
    return dict(lowered._lowering._compiler_options_kvs)


@contextlib.contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Inside, JAX leaves its own frames in tracebacks, which tell Pallas's refusals from a user's bugs."""
    with config.traceback_filtering("off"):
        yield
