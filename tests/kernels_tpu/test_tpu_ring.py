"""Collectives over a ring of TPUs: numbers and races on simulated chips. The compiler is asked with other kernels."""

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas.kernels.tpu.ring import all_gather, all_gather_matmul


@pytest.mark.parametrize("cores", [1, 2])
def test_numbers(cores: int) -> None:
    """In a process of its own, in which JAX sees four chips."""
    program = Path(__file__).with_name("ring_run.py")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(program), str(cores)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_refusals() -> None:
    x = jnp.ones((3, 128))
    with pytest.raises(tp.LaunchError, match="all_gather: expected a matrix with an even number of rows"):
        all_gather(x, "x")
    with pytest.raises(tp.LaunchError, match=r"shapes \(m, k\) and \(k, n\), found float32, \(4, 128\)"):
        all_gather_matmul(jnp.ones((4, 128)), x, "x")
