"""The vendors' compilers behind JAX's compile-only devices; imported in worker processes only.

Private parts of JAX: the public ``Lowered.compile`` needs the lowering itself in this process, while a
worker has only its text. The options are those that ``jax.jit(...).lower(...).compile()`` uses.
"""

import functools
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from jax.experimental import topologies

from typedpallas.chips import GpuTarget, Target, TpuTarget
from typedpallas.compilers import jaxapi
from typedpallas.compilers.job import Job

JaxRuntimeError: type[Exception] = jaxapi.lib._jax.JaxRuntimeError
"""What a compiler's refusal comes as."""

_GPU_DESCRIPTION = """
gpu_device_info {{
  threads_per_block_limit: 1024  threads_per_warp: 32
  shared_memory_per_block: 49152  shared_memory_per_core: {chip.shared_memory_per_core_bytes}
  shared_memory_per_block_optin: {chip.shared_memory_bytes}
  threads_per_core_limit: {threads}  core_count: {chip.cores}  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: {chip.bandwidth_bytes_per_second}  l2_cache_size: {chip.l2_bytes}
  clock_rate_ghz: 1.98  device_memory_size: {chip.memory_bytes}
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 13 }}
device_description_str: "{kind}"
"""
"""XLA's description of a GPU (its ``GpuTargetConfigProto``). The limits of a block are those of CUDA's
programming guide for compute capability 8.0 to 10.0; the clock only weighs XLA's own fusions."""

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")


@functools.cache
def devices(target: Target, partitions: int) -> list[Any]:
    """Compile-only devices of the target, at least `partitions`; needs its compiler's library."""
    if isinstance(target, TpuTarget):
        found = topologies.get_topology_desc(platform="tpu", topology_name=target.topology).devices
    else:
        found = topologies.get_topology_desc(
            platform="cuda",
            topology_name="described",
            topology=f"1x1x{partitions}",
            target_config=_describe(target),
        ).devices
    if len(found) < partitions:
        raise ValueError(f"the topology of {target.name} has {len(found)} devices, the module {partitions}")
    return list(found[:partitions])


def _describe(chip: GpuTarget) -> str:
    major, minor = chip.capability
    threads = 1536 if (major, minor) in ((8, 6), (8, 9)) else 2048
    kind = chip.compiled_as or chip.device_kind
    return _GPU_DESCRIPTION.format(chip=chip, threads=threads, major=major, minor=minor, kind=kind)


def compile_code(job: Job, on: list[Any], dumps: str) -> tuple[dict[str, Any], bytes]:
    """Compiles the job; the reply's payload is the compiled module's text.

    `dumps`: an empty folder where Mosaic GPU (told by its environment) and XLA leave PTX; emptied again.

    Raises:
        JaxRuntimeError: the compiler refuses.
    """
    module = jaxapi.parse(job.code, jaxapi.new_context())
    options = dict(job.options)
    if isinstance(job.target, GpuTarget):
        options |= {"xla_dump_to": dumps, "xla_dump_emitter_re": "ptx"}
    assignment = np.array(on, dtype=object).reshape(1, job.partitions)
    settings = jaxapi.compiler.get_compile_options(
        num_replicas=1,
        num_partitions=job.partitions,
        device_assignment=assignment,
        env_options_overrides=options,
        detailed_logging=False,
        backend=on[0].client,
    )
    start = time.perf_counter()
    try:
        done = on[0].client.compile(
            module, executable_devices=jaxapi.lib.xla_client.DeviceList(tuple(on)), compile_options=settings
        )
        seconds = time.perf_counter() - start
        kernels = _kernels(Path(dumps))
    finally:
        for left in Path(dumps).iterdir():
            left.unlink()
    stats = done.get_compiled_memory_stats()
    memory = {
        "code": stats.generated_code_size_in_bytes or None,
        "arguments": stats.argument_size_in_bytes,
        "outputs": stats.output_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
    }
    text = "\n".join(part.to_string() for part in done.hlo_modules())
    return {"status": "compiled", "memory": memory, "seconds": seconds, "kernels": kernels}, text.encode()


def _kernels(dumps: Path) -> list[dict[str, str]]:
    found = []
    for path in sorted(dumps.glob("*.ptx")):
        ptx = path.read_text(errors="replace")
        said = path.with_suffix(".ptxas")
        assembler = said.read_text(errors="replace") if said.exists() else ""
        names = _ENTRY.findall(ptx)
        found.append({"name": names[0] if names else path.stem, "ptx": ptx, "assembler": assembler.strip()})
    return found
