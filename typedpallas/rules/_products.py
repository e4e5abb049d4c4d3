"""What the matrix units of Hopper (`wgmma`) and Blackwell (`tcgen05_mma`) take, and small kernels that use them.

Each number was asked of Mosaic GPU's lowering and the assembler behind it, JAX 0.11.2, for h100 and b200, with sweeps
over shapes, element types, transposes, tilings and swizzles; the tests ask again for a sample.
"""

from typedpallas import dtypes, gpu
from typedpallas.chips import GpuTarget
from typedpallas.events import Context, MatrixOperand, MatrixProduct

SWIZZLES = (128, 64, 32)
"""Bytes, as Mosaic GPU offers them; it takes the largest that divides what the operands have in their minor dim."""
ROWS = 8
"""Rows of a tile that the matrix unit reads at once."""
SUMS: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "float32": ("float32",),
    "int8": ("int32",),
    "uint8": ("int32",),
    "float8_e4m3fn": ("float32", "float16"),
    "float8_e5m2": ("float32", "float16"),
}
"""What `wgmma` can sum products of a type in."""
_INTEGERS = ("int8", "uint8")
_NO_INTEGERS = (10, 3)
"""The compute capability whose `tcgen05_mma` takes no integers."""

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

M, N, K = {m}, {n}, {k}
TILES = ({transforms})
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))

def kernel(x, y, o, x_tile, y_tile, o_tile, arrived):
    plgpu.copy_gmem_to_smem(x, x_tile, arrived)
    plgpu.copy_gmem_to_smem(y, y_tile, arrived)
    plgpu.barrier_wait(arrived)

    def product(acc):
        plgpu.wgmma(acc, {a}, y_tile)
        return acc[...]

    o_tile[...] = pl.run_scoped(product, plgpu.ACC((M, N), jnp.float32))
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_tile, o)
    plgpu.wait_smem_to_gmem(0)

def run(x, y):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_types=[
            plgpu.SMEM((M, K), jnp.float16, transforms=TILES),
            plgpu.SMEM((K, N), jnp.float16),
            plgpu.SMEM((M, N), jnp.float32),
            plgpu.Barrier(num_arrivals=2),
        ],
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)
"""


def module(*, m: int = 64, n: int = 64, k: int = 64, a: str = "x_tile", transforms: str = "") -> str:
    """An example's source: one product of whole arrays on Hopper. ``transforms``: of the left operand's buffer."""
    return _KERNEL.format(m=m, n=n, k=k, a=a, transforms=transforms)


def judged(event: MatrixProduct, context: Context) -> bool:
    """Whether the target has the product's instruction at all; without a target it may."""
    chip = context.target
    if chip is None:
        return True
    if not isinstance(chip, GpuTarget):
        return False
    major = chip.capability[0]
    return major == 9 if event.instruction == "wgmma" else major >= 10


def sums(event: MatrixProduct, context: Context) -> dict[str, tuple[str, ...]]:
    """What the product's instruction can sum products of each type in; `tcgen05_mma` takes no float32 operands."""
    if event.instruction == "wgmma":
        return SUMS
    chip = context.target
    floats_only = isinstance(chip, GpuTarget) and chip.capability == _NO_INTEGERS
    return {k: v for k, v in SUMS.items() if k != "float32" and not (floats_only and k in _INTEGERS)}


def item_bytes(dtype: str | None) -> int | None:
    """Bytes of one element; none where unknown, or less than one."""
    marker = dtypes.from_jax_name(dtype) if dtype else None
    return marker.bits // 8 if marker is not None and marker.bits >= 8 else None


def stored(operand: MatrixOperand) -> tuple[int | None, int | None]:
    """The last two dims of an operand as they lie in memory: rows, and what is contiguous."""
    if operand.shape is None or len(operand.shape) != 2:
        return None, None
    rows, columns = operand.shape
    return (columns, rows) if operand.transposed else (rows, columns)


def other_way(operand: MatrixOperand, along: str) -> bool:
    """Whether an operand in shared memory is contiguous along ``along`` (``M``, ``N``), not along K."""
    if operand.space is not gpu.SMEM:
        return False
    return operand.transposed if along == "M" else not operand.transposed


def swizzle_across(event: MatrixProduct) -> int | None:
    """The swizzle, in bytes, that makes a tile of K rows for operands that are not contiguous along K.

    `wgmma` has one for both operands, so it only matters where neither is contiguous along K. None where it does not
    matter, or where something else decides: a part of a buffer, a buffer that other products read.
    """
    across = [o for o, along in ((event.a, "M"), (event.b, "N")) if other_way(o, along)]
    if any(o.part for o in (event.a, event.b)):
        return None
    if event.instruction == "wgmma":
        found = [_swizzle(o, None) for o in across]
        known = [swizzle for swizzle in found if swizzle is not None]
        return min(known) if len(across) == len(known) == 2 else None
    half = event.extents[0] == _HALF_M
    wanted = [_swizzle(o, _half(o) if half and o is event.b else None) for o in across]
    return max((swizzle for swizzle in wanted if swizzle is not None), default=None)


_HALF_M = 64
"""With these rows Blackwell's unit works on two halves of the columns."""


def _half(operand: MatrixOperand) -> int | None:
    size, (_, minor) = item_bytes(operand.dtype), stored(operand)
    return None if size is None or minor is None else minor * size // 2


def _swizzle(operand: MatrixOperand, most: int | None) -> int | None:
    size, (_, minor) = item_bytes(operand.dtype), stored(operand)
    if operand.swizzle is not None or size is None or minor is None:
        return operand.swizzle
    return next((s for s in SWIZZLES if minor * size % s == 0 and (most is None or s <= most)), None)
