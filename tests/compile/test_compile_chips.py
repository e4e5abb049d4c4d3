"""The chips' files against what libtpu itself says: its devices, and the memory that it gives to a kernel."""

import json
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from compile_kernels import needs_tpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import compilers
from typedpallas.chips import TpuTarget, get, targets
from typedpallas.compilers.job import environment

TPUS = [chip for name in targets() if isinstance(chip := get(name), TpuTarget)]
each_chip = pytest.mark.parametrize("chip", TPUS, ids=lambda chip: chip.name)
TILE_BYTES = 4096
SLACK = 1 << 20
"""Bytes below a limit that surely fit: the kernel's own blocks need some."""

_ASK = """
import json, sys
from jax.experimental import topologies
for topology, config in json.loads(sys.argv[1]):
    how = {"chip_config_name": config} if config else {}
    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology, **how).devices
    print(json.dumps([devices[0].device_kind, devices[0].num_cores]))
"""


@pytest.fixture(scope="module")
def described() -> list[list[Any]]:
    """Each chip's device kind and cores in one device, as libtpu has them."""
    asked = json.dumps([(chip.topology, chip.chip_config) for chip in TPUS])
    command = [sys.executable, "-c", _ASK, asked]
    ran = subprocess.run(command, env=environment("tpu"), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]


@needs_tpu
def test_the_devices_are_those_that_libtpu_describes(described: list[list[Any]]) -> None:
    assert described == [[chip.device_kind, chip.cores] for chip in TPUS]


def _scratch(space: Any, shape: tuple[int, ...], dtype: Any, limit: int | None) -> Any:
    def kernel(x: Any, o: Any, buffer: Any) -> None:
        if len(shape) == 1:
            buffer[0] = pl.program_id(0)
            o[...] = x[...] + buffer[0].astype(jnp.float32)
            return

        def rows(i: Any) -> Any:
            return pl.ds(pl.multiple_of(i * 8, 8), 8)

        def stored(i: Any, value: Any) -> Any:  # what is never loaded does not count
            buffer[rows(i), :] = value
            return value

        jax.lax.fori_loop(0, shape[0] // 8, stored, x[...])
        o[...] = jax.lax.fori_loop(0, shape[0] // 8, lambda i, sums: sums + buffer[rows(i), :], x[...])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        grid=(1,),
        scratch_shapes=[space(shape, dtype)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )


def _fits(run: Any, chip: TpuTarget) -> bool:
    try:
        compilers.compile(run, jax.ShapeDtypeStruct((8, 128), jnp.float32), target=chip)
    except compilers.CompileError as error:
        assert error.kind == "refused", error
        return False
    return True


@needs_tpu
@each_chip
def test_a_kernel_gets_as_much_memory_as_the_file_says(chip: TpuTarget) -> None:
    def vmem(size: int, limit: int | None) -> bool:
        rows = size // TILE_BYTES * 8
        return _fits(_scratch(pltpu.VMEM, (rows, 128), jnp.float32, limit), chip)

    def smem(size: int) -> bool:
        return _fits(_scratch(pltpu.SMEM, (size // 512 * 128,), jnp.int32, None), chip)

    default, most = chip.vmem_default_bytes, chip.vmem_most_bytes
    assert vmem(default - SLACK, None) and not vmem(default + TILE_BYTES, None)
    assert vmem(most - SLACK, most) and not vmem(most + TILE_BYTES, 2 * most)
    assert smem(chip.smem_bytes * 3 // 4) and not smem(chip.smem_bytes + 512)
