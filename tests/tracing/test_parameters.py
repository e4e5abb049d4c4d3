"""Compiler parameters that JAX refuses when it lowers: the compiler says so too, and takes what passes."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import typedpallas as tp

X = jax.ShapeDtypeStruct((16, 128), jnp.float32)
LOGICAL = pl.DeviceIdType.LOGICAL


def launched(params: Any, barrier: Any = None, inside: bool = False) -> Any:
    """Two devices; ``barrier`` are the arguments of `get_barrier_semaphore`, none where it is not asked for."""

    def body(x: Any, o: Any) -> None:
        def meet() -> None:
            semaphore = pltpu.get_barrier_semaphore(**barrier)
            pl.semaphore_signal(semaphore, 1, device_id=1 - jax.lax.axis_index("pair"), device_id_type=LOGICAL)
            pl.semaphore_wait(semaphore, 1)

        if barrier is not None:
            pl.when(pl.program_id(0) == 0)(meet) if inside else meet()
        o[...] = x[...]

    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), grid=(1,), compiler_params=params
    )

    def run(x: Any) -> Any:
        mesh = AbstractMesh((2,), ("pair",), axis_types=(AxisType.Auto,))
        return jax.shard_map(call, mesh=mesh, in_specs=P("pair"), out_specs=P("pair"), check_vma=False)(x)

    return run


CASES = [
    (launched(None), None),
    (launched(pltpu.CompilerParams()), None),
    (launched({}), "a dict of nothing"),
    (launched({"mosaic": {"vmem_limit_bytes": 1 << 20}}), "a dict of `mosaic`"),
    (launched(pltpu.CompilerParams(collective_id=3)), "`collective_id=3` and no barrier semaphore"),
    (launched(pltpu.CompilerParams(collective_id=3, allow_collective_id_without_custom_barrier=True)), None),
    (launched(pltpu.CompilerParams(collective_id=3), {}), None),
    (launched(pltpu.CompilerParams(collective_id=3), {}, inside=True), None),
    (launched(pltpu.CompilerParams(), {}), "none"),
    (launched(None, {}, inside=True), "none"),
    (launched(None, {"tag": "pair"}), None),
    (launched(pltpu.CompilerParams(collective_id=3), {"tag": "pair"}), "`collective_id=3`"),
]


@pytest.mark.parametrize("run, found", CASES)
def test_the_compiler_agrees(run: Any, found: str | None) -> None:
    said = tp.check(run, X, target="tpu-v5e").diagnostics
    assert [(item.rule, item.found) for item in said] == ([("wrong-compiler-params", found)] if found else [])
    if found:
        assert said[0].help
        with pytest.raises((tp.CompileError, TypeError, ValueError)):
            tp.compile(run, X, target="tpu-v5e")
    else:
        tp.compile(run, X, target="tpu-v5e")


def test_where_nothing_is_lowered_nothing_is_said() -> None:
    def run(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o: o.__setitem__(..., x[...]), out_shape=X, interpret=True, compiler_params={"mosaic": {}}
        )(x)

    assert not tp.check(run, X, target="tpu-v5e").diagnostics
