"""Runs the ring kernels on four simulated chips, whose number has to be said before JAX is first used.

``python ring_run.py CORES`` fails where numbers are not those of the definition, or where there is a race.
"""

import io
import sys
from contextlib import redirect_stdout
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

from typedpallas.kernels.tpu.ring import all_gather, all_gather_matmul

CHIPS = 4


def main(cores: int) -> None:
    mesh = jax.make_mesh((CHIPS,), ("x",), (jax.sharding.AxisType.Auto,))
    mode = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=cores)
    random = np.random.default_rng(cores)

    def on_chips(fn: Any, *arrays: Any) -> np.ndarray:
        """Arrays are cut along their first axis; the results of the chips, one after the other."""
        run = jax.shard_map(fn, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        printed = io.StringIO()
        with redirect_stdout(printed):
            found = jax.block_until_ready(jax.jit(run)(*arrays))
        assert "RACE DETECTED" not in printed.getvalue(), printed.getvalue()
        return np.asarray(found).reshape(CHIPS, -1, found.shape[-1])

    x = jnp.asarray(random.standard_normal((CHIPS * 32, 128)), jnp.float32)
    w = jnp.asarray(random.standard_normal((CHIPS * 128, 256)), jnp.float32)
    for chip in on_chips(lambda part: all_gather(part, "x", interpret=mode), x):
        np.testing.assert_array_equal(chip, x)
    products = on_chips(lambda part, own: all_gather_matmul(part, own, "x", interpret=mode), x, w)
    for chip, own in zip(products, w.reshape(CHIPS, 128, 256), strict=True):
        np.testing.assert_allclose(chip, x @ own, rtol=1e-4, atol=1e-3)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", CHIPS)
    main(int(sys.argv[1]))
