"""Copies between every two spaces, types and shapes: the rules refuse what the compiler refuses, and nothing else."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps_common import Kernel, refusal, refuted, verdicts

RULES = {"copy-space-pair", "copy-shape-mismatch", "dtype-mismatch", "semaphore-as-data"}
SPACES: dict[str, Any] = {"ANY": None, "VMEM": pltpu.VMEM, "SMEM": pltpu.SMEM}


def copied(source: str, target: str, given: tuple[Any, Any], made: tuple[Any, Any]) -> Kernel:
    """A kernel that copies from a buffer of one shape and type to one of another."""

    def body(x, o, *scratch):
        buffers = list(scratch[:-1])
        begin = x if source == "ANY" else buffers.pop(0)
        copy = pltpu.make_async_copy(begin, o if target == "ANY" else buffers.pop(0), scratch[-1])
        copy.start()
        copy.wait()

    scratch = [SPACES[name](*what) for name, what in ((source, given), (target, made)) if name != "ANY"]

    def run(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct(*made),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[*scratch, pltpu.SemaphoreType.DMA],
        )(x)

    return Kernel(f"{given} in {source} to {made} in {target}", run, (jax.ShapeDtypeStruct(*given),))


def _agree(kernel: Kernel, target: str) -> None:
    said = refuted(verdicts(kernel, target)) & RULES
    refused = refusal(kernel, target)
    assert bool(said) == bool(refused), f"{kernel.words} on {target}: {said} against {refused or 'accepted'}"


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4", "tpu-7x"])
@pytest.mark.parametrize(("source", "target_space"), list(itertools.product(SPACES, SPACES)))
def test_pairs_of_spaces(source: str, target_space: str, target: str) -> None:
    what = ((8, 128), jnp.int32)
    _agree(copied(source, target_space, what, what), target)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (jnp.float32, jnp.bfloat16),
        (jnp.float32, jnp.int32),
        (jnp.bfloat16, jnp.float16),
        (jnp.int8, jnp.uint8),
        (jnp.uint32, jnp.int32),
        (jnp.int8, jnp.float8_e4m3fn),
    ],
)
def test_pairs_of_types(given: Any, made: Any) -> None:
    _agree(copied("ANY", "VMEM", ((32, 128), given), ((32, 128), made)), "tpu-v6e")


@pytest.mark.parametrize(
    ("given", "made"),
    [((16, 128), (8, 128)), ((8, 128), (1024,)), ((1, 8, 128), (8, 128)), ((8, 128), (1, 128)), ((2, 8, 128),) * 2],
)
def test_pairs_of_shapes(given: tuple[int, ...], made: tuple[int, ...]) -> None:
    _agree(copied("ANY", "VMEM", (given, jnp.float32), (made, jnp.float32)), "tpu-v5e")
