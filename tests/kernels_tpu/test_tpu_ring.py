"""Collectives over a ring of TPUs: numbers and races on simulated chips, the checker, and the compiler."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import typedpallas as tp
from typedpallas import chips, compilers
from typedpallas.compilers.ambient import described_mesh, target_context
from typedpallas.kernels.tpu.ring import all_gather, all_gather_matmul

SINCE_V4 = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
X, W = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((1024, 512), (2048, 512)))
KERNELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "all_gather": (lambda x: all_gather(x, "x"), (X,)),
    "all_gather_matmul": (lambda x, w: all_gather_matmul(x, w, "x"), (X, W)),
}


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


def on_four(name: str, target: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    fn, arrays = KERNELS[name]
    mesh = described_mesh(chips.get(target), (4,), ("x",))
    return jax.shard_map(fn, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False), arrays


@pytest.mark.parametrize("cores", [1, 2])
def test_numbers(cores: int) -> None:
    """In a process of its own, in which JAX sees four chips."""
    program = Path(__file__).with_name("ring_run.py")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, program, str(cores)], capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", SINCE_V4)
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_found_in_them(name: str, target: str) -> None:
    fn, arrays = on_four(name, target)
    assert not tp.check(fn, *arrays, target=target).diagnostics


@pytest.mark.compiler
@pytest.mark.parametrize("target", SINCE_V4)
@pytest.mark.parametrize("name", KERNELS)
def test_where_kernels_are_taken(name: str, target: str) -> None:
    fn, arrays = on_four(name, target)
    try:
        tp.compile(fn, *arrays, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("name", KERNELS)
def test_old_chips_send_nothing(name: str) -> None:
    fn, arrays = on_four(name, "tpu-v3")
    with pytest.raises(tp.PlacementError, match="expected a copy within the device"), target_context("tpu-v3"):
        jax.make_jaxpr(fn)(*(jax.ShapeDtypeStruct(x.shape, jnp.float32) for x in arrays))


def test_refusals() -> None:
    x = jnp.ones((3, 128))
    with pytest.raises(tp.LaunchError, match=r"all_gather: expected a matrix with an even number of rows"):
        all_gather(x, "x")
    with pytest.raises(tp.LaunchError, match=r"shapes \(m, k\) and \(k, n\), found float32, \(4, 128\)"):
        all_gather_matmul(jnp.ones((4, 128)), x, "x")
