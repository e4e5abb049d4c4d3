"""The kernels' own modules inside a lowered StableHLO module, readable.

Pallas hands each kernel to the compiler as a custom call that carries another MLIR module: Triton's as
bytecode, Mosaic TPU's as base64 of a version-stable form in a JSON config, Mosaic GPU's in such a form too.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from typedpallas.compilers import jaxapi

type Backend = Literal["mosaic_tpu", "mosaic_gpu", "triton"]

_BACKENDS: dict[str, Backend] = {
    "tpu_custom_call": "mosaic_tpu",
    "mosaic_gpu_v2": "mosaic_gpu",
    "__gpu$xla.gpu.triton": "triton",
}
_TPU_CODE = ("body", "debug_locations")
"""The kernel and, from JAX 0.12 on beside it, its source locations."""
_CODE_ENTRY = {"mosaic_gpu": "module", "triton": "ir"}
_SERDE = {"mosaic_tpu": "mosaic-serde", "mosaic_gpu": "mosaic_gpu-serde"}
_COUNTED_NAME = re.compile(r', mosaic_gpu\.dump_basename = "[^"]*"|mosaic_gpu\.dump_basename = "[^"]*",? ?')
"""Mosaic GPU numbers the kernels of a process: the same kernel lowered twice differs in it."""


@dataclass(frozen=True, kw_only=True)
class KernelText:
    """One kernel's module as MLIR text, source locations left out."""

    name: str
    backend: Backend
    text: str


def kernels(code: bytes) -> list[KernelText]:
    """The kernels in a lowered module (MLIR bytecode), in the order in which the module calls them."""
    module = jaxapi.parse(code, jaxapi.new_context())
    return [_decoded(call, backend) for call, backend in _kernel_calls(module.operation)]


def canonical_text(code: bytes) -> str:
    """The whole lowered module as text that only changes when the program does.

    Source locations are left out, also those inside the kernels' own modules, and so are the numbers that
    Mosaic GPU gives the kernels of a process. Of a kernel's module it holds a digest.
    """
    context = jaxapi.new_context()
    module = jaxapi.parse(code, context)
    for call, backend in _kernel_calls(module.operation):
        rest = {name: str(value) for name, value in _config(call, backend).items()}
        text = json.dumps([backend, _digest(_code(call, backend)), rest], sort_keys=True)
        for name in ("backend_config", "mhlo.backend_config"):
            if name in call.attributes:
                del call.attributes[name]
        call.attributes["backend_config"] = jaxapi.string_attribute(text, context)
    return jaxapi.text_without_locations(module)


def _digest(code: bytes) -> str:
    """A digest of a kernel's module that only changes when the kernel does."""
    try:
        text = jaxapi.text_without_locations(jaxapi.parse(code, jaxapi.new_context()))
    except jaxapi.MLIRError:
        return hashlib.sha256(code).hexdigest()
    return hashlib.sha256(_COUNTED_NAME.sub("", text).encode()).hexdigest()


def _kernel_calls(operation: Any) -> Iterator[tuple[Any, Backend]]:
    for region in operation.regions:
        for block in region:
            for inner in block:
                call = inner.operation
                if call.name == "stablehlo.custom_call":
                    target = jaxapi.attribute_bytes(call.attributes["call_target_name"]).decode()
                    if target in _BACKENDS:
                        yield call, _BACKENDS[target]
                yield from _kernel_calls(call)


def _config(call: Any, backend: Backend) -> dict[str, Any]:
    """The call's config but for the kernel's code and what is derived from it."""
    if backend == "mosaic_tpu":
        config: dict[str, Any] = json.loads(jaxapi.attribute_bytes(call.attributes["backend_config"]))
        inner = {k: v for k, v in config["custom_call_config"].items() if k not in _TPU_CODE}
        return config | {"custom_call_config": inner}
    entries = jaxapi.attribute_entries(call.attributes["mhlo.backend_config"])
    return {k: v for k, v in entries.items() if k not in (_CODE_ENTRY[backend], "kernel_hash")}


def _code(call: Any, backend: Backend) -> bytes:
    if backend == "mosaic_tpu":
        config = json.loads(jaxapi.attribute_bytes(call.attributes["backend_config"]))
        return base64.b64decode(config["custom_call_config"]["body"])
    entries = jaxapi.attribute_entries(call.attributes["mhlo.backend_config"])
    return jaxapi.attribute_bytes(entries[_CODE_ENTRY[backend]])


def _decoded(call: Any, backend: Backend) -> KernelText:
    code = _code(call, backend)
    try:
        module = jaxapi.parse(code, jaxapi.new_context())
        if backend in _SERDE:
            jaxapi.run_passes(module, f"builtin.module({_SERDE[backend]}{{serialize=false}})")
            module = jaxapi.parse(jaxapi.text_without_locations(module), module.context)
    except jaxapi.MLIRError as error:  # Pallas can write a module that MLIR refuses
        why = "\n".join(f"// {line}" for line in str(error).splitlines())
        text = f"// This module does not parse:\n{why}\n// {code.hex()}\n"
        return KernelText(name=_name(call, backend, None), backend=backend, text=text)
    return KernelText(name=_name(call, backend, module), backend=backend, text=str(module))


def _name(call: Any, backend: Backend, module: Any) -> str:
    if backend == "triton":
        entries = jaxapi.attribute_entries(call.attributes["mhlo.backend_config"])
        return jaxapi.attribute_bytes(entries["name"]).decode()
    holders = [(call, "kernel_name"), *([(module.operation, "sym_name")] if module else [])]
    for holder, attribute in holders:
        if attribute in holder.attributes:
            return jaxapi.attribute_bytes(holder.attributes[attribute]).decode()
    return "kernel"
