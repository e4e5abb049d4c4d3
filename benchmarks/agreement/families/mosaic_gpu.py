"""Mosaic GPU kernels around one block: matrix products, copies with layouts."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from typedpallas import chips
from typedpallas.chips import GpuTarget

HEAD = """import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
"""
INTERPRET = "plgpu.InterpretGPUParams() if interpret else None"
_SUMS = {
    "float16": ("float32", "float32", "float16"),
    "bfloat16": ("float32", "float32", "float32", "float16"),
    "float32": ("float32",),
    "int8": ("int32",),
    "float8_e4m3fn": ("float32", "float16"),
}
_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "int8": 8, "int16": 16, "int32": 32, "float8_e4m3fn": 8}
_FORMS = (
    *("i", "i * 4", "i * 8", "i * 16 + 8 - 8", "(i * 2) * 8", "i << 3", "i // 2 * 8", "i * 64 // 8"),
    *("jnp.minimum(i * 8, 16)", "jnp.maximum(i * 8, 0)", "lax.rem(i * 8, 16)", "pl.multiple_of(i, 8)", "i * 8 & -8"),
    *("jnp.where(i > 0, i * 8, 0)", "jnp.where(i > 0, i * 4, 0)", "lax.cond(i > 0, lambda: i * 8, lambda: i)"),
)
"""Starts of copies, 0 at the first block, that are or are not seen to be multiples of a tile's rows."""
type Layout = tuple[tuple[int, int] | None, int | None]


def capability(target: str) -> tuple[int, int]:
    """Of a GPU target."""
    chip = chips.get(target)
    assert isinstance(chip, GpuTarget)
    return chip.capability


def layout_text(layout: Layout) -> str:
    """A tile and a swizzle as the argument of a buffer."""
    tile, swizzle = layout
    parts = [f"plgpu.TilingTransform({tile!r})"] if tile else []
    parts += [f"plgpu.SwizzleTransform({swizzle})"] if swizzle else []
    return f"({', '.join(parts)},)" if parts else "()"


def layout(rng: random.Random, bits: int, odd: float) -> Layout:
    """Mostly none, else a tile that fits its swizzle; with probability ``odd`` one that need not."""
    if rng.random() < 0.55:
        return None, None
    swizzle = rng.choice((32, 64, 128))
    width = swizzle * 8 // bits
    if rng.random() >= odd:
        return (8, width), swizzle
    return rng.choice(
        [
            ((8, width), None),
            (None, swizzle),
            ((16, width), swizzle),
            ((8, width // 2), swizzle),
            ((4, width), swizzle),
        ]
    )


@dataclass(frozen=True)
class MosaicProduct(Case):
    """One product of whole arrays by the target's matrix unit."""

    family: ClassVar[str] = "mosaic_gpu"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"

    m: int
    n: int
    k: int
    dtype: str
    sums: str
    turned: tuple[bool, bool]
    layouts: tuple[Layout, Layout]
    left: Literal["shared", "global"]
    blackwell: bool = False

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly right; some of odd sizes, types, transposes or layouts."""
        dtype = rng.choice(("float16", "float16", "bfloat16", "bfloat16", "float32", "int8", "float8_e4m3fn"))
        odd = rng.random() < 0.35
        narrow = _BITS[dtype] != 16
        turned = (narrow and rng.random() < 0.1, rng.random() < (0.9 if narrow else 0.4))
        if not narrow:
            turned = (rng.random() < 0.2, turned[1])
        return cls(
            rng.choice((32, 64, 96, 128, 192)) if odd else rng.choice((64, 128)),
            rng.choice((8, 12, 24, 40, 48, 72, 96, 200, 264)) if odd else rng.choice((32, 64, 128, 256)),
            rng.choice((8, 16, 24, 32, 40, 48, 96)) if odd and rng.random() < 0.5 else rng.choice((64, 128)),
            dtype,
            rng.choice(_SUMS[dtype]),
            turned,
            (layout(rng, _BITS[dtype], 0.2), layout(rng, _BITS[dtype], 0.2)),
            "global" if rng.random() < 0.05 else "shared",
        )

    def on(self, target: str) -> Self:
        """With the matrix unit of a target: Blackwell's has 64 or 128 rows."""
        if capability(target) < (10, 0):
            return self
        return replace(self, blackwell=True, m=128, n=512 if self.n == 264 else self.n)

    def _scratch(self) -> str:
        x, y = self._shapes()
        buffers = [
            f"plgpu.SMEM({x!r}, jnp.{self.dtype}, transforms={layout_text(self.layouts[0])})",
            f"plgpu.SMEM({y!r}, jnp.{self.dtype}, transforms={layout_text(self.layouts[1])})",
            f"plgpu.SMEM({(self.m, self.n)!r}, jnp.{self.sums})",
            "plgpu.Barrier(num_arrivals=2)",
        ]
        if self.blackwell:
            packed = ", packed=False" if _BITS.get(self.sums) == 16 else ""
            buffers += [f"plgpu.TMEM({(self.m, self.n)!r}, jnp.{self.sums}{packed})"]
            buffers += ["plgpu.Barrier(orders_tensor_core=True)"]
        return ", ".join(buffers)

    def _shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        x = (self.k, self.m) if self.turned[0] else (self.m, self.k)
        return x, (self.n, self.k) if self.turned[1] else (self.k, self.n)

    def _product(self) -> str:
        left = "x" if self.left == "global" else "xs"
        a = f"{left}.transpose((1, 0))" if self.turned[0] else left
        b = "ys.transpose((1, 0))" if self.turned[1] else "ys"
        if self.blackwell:
            return f"""    plgpu.tcgen05_mma(acc, {a}, {b}, done, accumulate=False)
    plgpu.barrier_wait(done)
    os[...] = plgpu.async_load_tmem(acc)"""
        return f"""    def product(acc):
        plgpu.wgmma(acc, {a}, {b})
        return acc[...]
    os[...] = pl.run_scoped(product, plgpu.ACC({(self.m, self.n)!r}, jnp.{self.sums}))"""

    def source(self) -> str:
        """A module with one `plgpu.kernel`."""
        x, y = self._shapes()
        more = ", acc, done" if self.blackwell else ""
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({x!r}, jnp.{self.dtype}), jax.ShapeDtypeStruct({y!r}, jnp.{self.dtype}))

def kernel(x, y, o, xs, ys, os, arrived{more}):
    plgpu.copy_gmem_to_smem(x, xs, arrived)
    plgpu.copy_gmem_to_smem(y, ys, arrived)
    plgpu.barrier_wait(arrived)
{self._product()}
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(os, o)
    plgpu.wait_smem_to_gmem(0)

def run(x, y, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct({(self.m, self.n)!r}, jnp.{self.sums}),
        scratch_types=[{self._scratch()}],
        interpret={INTERPRET},
    )(x, y)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The product; small whole numbers are exact in every type. Interpret mode cannot multiply 8-bit floats."""
        if self.dtype == "float8_e4m3fn":
            return Outcome(None)
        x, y = (np.asarray(array, np.float32) for array in inputs)
        product = (x.T if self.turned[0] else x) @ (y.T if self.turned[1] else y)
        return Outcome((product,))


@dataclass(frozen=True)
class MosaicCopy(Case):
    """A part of an array to shared memory and back."""

    family: ClassVar[str] = "mosaic_gpu_copies"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"

    array: tuple[int, ...]
    box: tuple[int, ...]
    """Of the last dims; the others are indexed."""
    start: int
    dtype: str
    layout: Layout
    slots: int
    form: str | None = None
    """How the second-to-last dim's start is written: of the block's number ``i``, which is 0."""
    before: bool = False
    """Whether the target is older than Hopper: threads copy in, values go out."""
    limit: int = 232448
    """Bytes of shared memory; the compiler takes this one everywhere."""

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly a part that fits; some with odd rows, too long, or of too many dims."""
        dtype = rng.choice(("float32", "float16", "bfloat16", "int8", "int32", "int16"))
        odd = rng.random() < 0.35
        rank = rng.choice((1, 2, 2, 2, 2, 3, 4)) if not odd else rng.choice((1, 2, 2, 3, 5, 6))
        outer = tuple(rng.choice((1, 2, 2, 3)) for _ in range(rank - 2))
        rows = (rng.choice((8, 16, 64, 128, 256, 264, 512) if odd else (8, 16, 64, 128, 256)),) if rank > 1 else ()
        last = rng.choice((6, 12, 24, 40, 100, 264, 512) if odd else (16, 32, 64, 128, 256))
        array = (*outer, *rows, last)
        whole = rng.random() < 0.5
        kept = rank if whole else rng.choice([r for r in (1, 2, rank) if r <= rank])
        box = list(array[rank - kept :])
        if not whole and len(box) > 1 and box[-2] > 8:
            box[-2] //= 2
        start = rng.choice((0, 1)) if not whole and len(box) > 1 else 0
        found = layout(rng, _BITS[dtype], 0.3) if len(box) > 1 else (None, None)
        slots = rng.choice((1, 1, 2))
        form = rng.choice(_FORMS) if len(box) > 1 and rng.random() < 0.4 else None
        if len(box) > 1 and rng.random() < 0.15:
            array = (*array[:-2], array[-2] + rng.choice((0, 4, 8)), array[-1] + rng.choice((8, 16, 32)))
        return cls(array, tuple(box), 0 if form else start, dtype, found, slots, form)

    def on(self, target: str) -> Self:
        """As the target copies; where values go out, they have to fill a warpgroup's registers."""
        chip = chips.get(target)
        assert isinstance(chip, GpuTarget)
        if chip.capability >= (9, 0):
            return self
        array, box = (*self.array[:-1], 128), (*self.box[:-1], 128 if self.box[-1] > 16 else 64)
        return replace(
            self, before=True, array=array, box=box, layout=(None, None), form=None, limit=chip.shared_memory_bytes
        )

    @property
    def _part(self) -> tuple[list[str], tuple[slice | int, ...]]:
        outer = len(self.array) - len(self.box)
        starts = [0] * len(self.box)
        if len(self.box) > 1 and self.box[-2] < self.array[-2]:
            starts[-2] = self.start * self.box[-2] if (self.start + 1) * self.box[-2] <= self.array[-2] else 0
        written = [str(start) for start in starts]
        if self.form:
            written[-2] = self.form
        texts = ["0"] * outer + [f"pl.ds({s}, {b})" for s, b in zip(written, self.box, strict=True)]
        slices = [0] * outer + [slice(s, s + b) for s, b in zip(starts, self.box, strict=True)]
        return texts, tuple(slices)

    def source(self) -> str:
        """A module with one `plgpu.kernel`."""
        part = f"[{', '.join(self._part[0])}]"
        shape = (self.slots, *self.box) if self.slots > 1 else self.box
        view = f"buffer.at[{self.slots - 1}]" if self.slots > 1 else "buffer"
        copies = f"""    plgpu.copy_gmem_to_smem(x.at{part}, {view}, arrived)
    plgpu.barrier_wait(arrived)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem({view}, o)
    plgpu.wait_smem_to_gmem(0)"""
        if self.before:
            promise = "oob_mode=plgpu.OOBFillMode.PROMISE_IN_BOUNDS"
            copies = f"""    plgpu.copy_gmem_to_smem(x.at{part}, {view}, {promise})
    plgpu.wait_gmem_to_smem(0)
    o[...] = {view}[...]"""
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({self.array!r}, jnp.{self.dtype}),)

def kernel(x, o, buffer, arrived):
{"    i = lax.axis_index('i')" if self.form else ""}
{copies}

def run(x, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct({self.box!r}, jnp.{self.dtype}),
        scratch_types=[
            plgpu.SMEM({shape!r}, jnp.{self.dtype}, transforms={layout_text(self.layout)}),
            plgpu.Barrier(),
        ],
        {"grid=(1,), grid_names=('i',)," if self.form else ""}
        interpret={INTERPRET},
    )(x)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The part; before Hopper one that is not contiguous is copied as if it were."""
        need = math.prod(self.box) * self.slots * _BITS[self.dtype] // 8
        if need > self.limit:
            return Outcome(None, f"{need} bytes of shared memory of {self.limit}")
        sizes = [1] * (len(self.array) - len(self.box)) + list(self.box)
        pairs = list(zip(sizes, self.array, strict=True))
        while pairs and pairs[0][0] == 1:
            pairs.pop(0)
        if self.before and any(size != whole for size, whole in pairs[1:]):
            return Outcome(None, f"{sizes} of {self.array} is not contiguous")
        return Outcome((np.asarray(inputs[0], np.float32)[self._part[1]],))
