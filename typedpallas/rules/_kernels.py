"""The frame of the rules' small example modules."""

_FRAME = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
{imports}from typing import Literal as L
import typedpallas as tp
{typed}
ARGS = ({args},)

{kernel}

def run({parameters}) -> jax.Array:
    return {call}

def reference({parameters}) -> jax.Array:
    return {reference}
"""

_MACHINES = {
    "tpu": "from jax.experimental.pallas import tpu as pltpu\n",
    "triton": "from jax.experimental.pallas import triton as plt\n",
    "mosaic_gpu": "from jax.experimental.pallas import mosaic_gpu as plgpu\n",
    "": "",
}


def array(shape: str, dtype: str = "float32") -> str:
    """One of a module's ``ARGS``."""
    return f"jax.ShapeDtypeStruct(({shape}), jnp.{dtype})"


def module(
    *,
    kernel: str,
    call: str,
    reference: str,
    args: tuple[str, ...],
    names: tuple[str, ...] = ("x",),
    machine: str = "",
    typed: str = "",
) -> str:
    """An example's source: imports, ``ARGS``, the kernel, ``run`` that launches it, and the reference."""
    return _FRAME.format(
        imports=_MACHINES[machine],
        typed=typed,
        args=", ".join(args),
        kernel=kernel.strip("\n"),
        parameters=", ".join(f"{name}: jax.Array" for name in names),
        call=call,
        reference=reference,
    )
