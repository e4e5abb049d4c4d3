"""What the overhead is measured on: generated modules for mypy, and kernels both typed and written by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, bf16, f32
from typedpallas.chips import get
from typedpallas.compilers.ambient import lowering_platform, target_context
from typedpallas.tpu import VMEM

_LINES = 84
"""Lines of one module; below, about."""
_HEAD = '''"""Generated kernels."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import VMEM
'''
_KERNELS = """

def scale_{i}[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = jnp.maximum(x[...] * {i}.0 + 1.0, 0.0)


scaled_{i} = tp.launch(scale_{i}, "(i BM) N -> (i BM) N", grid="i")


def softmax_{i}[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    rows = x[...]
    shifted = rows - jnp.max(rows, axis=1, keepdims=True)
    powers = jnp.exp(shifted * {i}.0)
    out[...] = powers / jnp.sum(powers, axis=1, keepdims=True)


softmaxed_{i} = tp.launch(softmax_{i}, "(i BM) N -> (i BM) N", grid="i")


def matmul_{i}[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    out: Out[VMEM, bf16, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        out[...] = (acc[...] * {i}.0).astype(jnp.bfloat16)


multiplied_{i} = tp.launch(matmul_{i}, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k")
"""


def modules(lines: int) -> dict[str, str]:
    """About this many lines of typed kernels in modules of 84 lines: file names and their text."""
    return {
        f"generated_{n}.py": _HEAD + "".join(_KERNELS.format(i=i) for i in range(2 * n, 2 * n + 2))
        for n in range(round(lines / _LINES))
    }


def module(lines: int) -> str:
    """One module of about this many lines."""
    return _HEAD + "".join(_KERNELS.format(i=i) for i in range(round((lines - 10) / 37)))


def relu_kernel[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    """``max(2 x + 1, 0)`` over blocks of rows."""
    out[...] = jnp.maximum(2.0 * x[...] + 1.0, 0.0)


def matmul_kernel[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    out: Out[VMEM, bf16, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    """A matrix product, accumulated over ``k`` in float32."""

    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


relu = tp.launch(relu_kernel, "(i BM) N -> (i BM) N", grid="i").bind(BM=512)
matmul = tp.launch(matmul_kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k").bind(
    BM=512, BK=512, BN=512
)


def relu_by_hand(x: jax.Array) -> Any:
    """`relu` in plain Pallas."""
    return pl.pallas_call(
        relu_kernel,
        grid=(x.shape[0] // 512,),
        in_specs=[pl.BlockSpec((512, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((512, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def matmul_by_hand(x: jax.Array, y: jax.Array) -> Any:
    """`matmul` in plain Pallas."""
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        matmul_kernel,
        grid=(m // 512, n // 512, k // 512),
        in_specs=[
            pl.BlockSpec((512, 512), lambda i, j, k: (i, k)),
            pl.BlockSpec((512, 512), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((512, 512), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((512, 512), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)


@dataclass(frozen=True)
class Case:
    """One kernel for one chip. Every measurement starts with JAX's caches empty."""

    name: str
    target: str
    typed: tp.Launch
    by_hand: Callable[..., Any]
    avals: tuple[Any, ...]

    def trace(self) -> None:
        """Trace the typed launch, with sizes that it was traced and checked with before."""
        self._trace(self.typed)

    def trace_first(self) -> None:
        """Trace the typed launch as new, with the check."""
        self._trace(self.typed.bind())

    def trace_by_hand(self) -> None:
        """Trace the call written by hand."""
        self._trace(self.by_hand)

    def _trace(self, function: Callable[..., Any]) -> None:
        jax.clear_caches()
        with target_context(self.target):
            jax.make_jaxpr(lambda *arrays: function(*arrays))(*self.avals)

    def lower(self) -> None:
        """Trace and lower the call written by hand."""
        jax.clear_caches()
        with target_context(self.target) as chip:
            traced = jax.jit(lambda *arrays: self.by_hand(*arrays)).trace(*self.avals)
            traced.lower(lowering_platforms=(lowering_platform(get(chip.name)),))

    def check(self) -> None:
        """`tp.check` of the call written by hand."""
        jax.clear_caches()
        tp.check(self.by_hand, *self.avals, target=self.target)


def _aval(dtype: Any, *shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


CASES = (
    Case("relu", "tpu-v5e", relu, relu_by_hand, (_aval(jnp.float32, 8192, 1024),)),
    Case("matmul", "tpu-v5e", matmul, matmul_by_hand, (_aval(jnp.bfloat16, 4096, 4096),) * 2),
)
