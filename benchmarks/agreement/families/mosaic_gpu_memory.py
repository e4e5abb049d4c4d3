"""Mosaic GPU kernels of many buffers, pipelines, warpgroups and blocks."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.mosaic_gpu import HEAD, INTERPRET, capability
from typedpallas import chips
from typedpallas.chips import GpuTarget

_HOPPER_BYTES = 232448
"""What Mosaic GPU's lowering takes for the limit on every chip."""


@dataclass(frozen=True)
class MosaicBuffers(Case):
    """A value that goes through shared buffers, scopes inside scopes, and sums; or a launch of many warpgroups."""

    family: ClassVar[str] = "mosaic_gpu_memory"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"

    rows: tuple[int, ...]
    """Of the buffers of 128 float32 each: two scopes after each other in a third one."""
    sums: bool
    barriers: int
    warpgroups: int
    cluster: int
    blocks: tuple[int, ...]
    limit: int = _HOPPER_BYTES

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly what fits; some buffers at the edge of a chip's memory, some launches past a limit."""
        most = rng.choice((8, 64, 128, 192, 208))
        rows = tuple(rng.choice((1, 2, 8, most // 2, most)) for _ in range(3))
        odd = rng.random() < 0.25
        return cls(
            tuple(max(1, r) for r in rows),
            rng.random() < 0.4,
            rng.choice((0, 1, 3, 64)),
            rng.choice((1, 1, 2, 4, 8, 9, 12) if odd else (1, 1, 1, 2, 4)),
            rng.choice((1, 2, 16, 32) if odd and rng.random() < 0.4 else (1, 1, 2)),
            rng.choice(
                ((1,), (2, 2), (2, 1, 3), (70000, 1), (1, 70000), (300, 300, 1, 1)) if odd else ((1,), (2, 2))
            ),
        )

    def on(self, target: str) -> Self:
        """With the shared memory of a target; clusters came with Hopper."""
        chip = chips.get(target)
        assert isinstance(chip, GpuTarget)
        cluster = self.cluster if capability(target) >= (9, 0) else 1
        return replace(self, limit=chip.shared_memory_bytes, cluster=cluster)

    def source(self) -> str:
        """A module with one `plgpu.kernel`; every block and warpgroup writes the same but the first alone counts."""
        outer, first, second = self.rows
        names = "abcd"[: len(self.blocks)]
        total = "s[...] + jnp.sum(s[...])" if self.sums else "s[...] * 2.0"
        mesh = f"grid={self.blocks!r}, grid_names={tuple(names)!r}, num_threads={self.warpgroups}, thread_name='t'"
        if self.cluster > 1:
            mesh += f", cluster=({self.cluster},), cluster_names=('c',)"
        axes = [*names, *(["c"] if self.cluster > 1 else []), "t"]
        alone = " & ".join(f"(lax.axis_index({name!r}) == 0)" for name in axes)
        barriers = f", plgpu.Barrier(num_barriers={self.barriers})" if self.barriers else ""
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct(({outer}, 128), jnp.float32),)

def kernel(x, o, s{", _" if self.barriers else ""}):
    def inner(buffer, value):
        buffer[...] = jnp.full(buffer.shape, value)
        s[...] = s[...] + buffer[0, 0]

    @pl.when({alone})
    def _():
        s[...] = x[...]
    pl.run_scoped(lambda b: pl.when({alone})(lambda: inner(b, 1.0)), plgpu.SMEM(({first}, 128), jnp.float32),
                  collective_axes="t")
    pl.run_scoped(lambda b: pl.when({alone})(lambda: inner(b, 2.0)), plgpu.SMEM(({second}, 128), jnp.float32),
                  collective_axes="t")

    @pl.when({alone})
    def _():
        o[...] = {total}

def run(x, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(({outer}, 128), jnp.float32),
        scratch_types=[plgpu.SMEM(({outer}, 128), jnp.float32){barriers}],
        {mesh},
        interpret={INTERPRET},
    )(x)
"""

    def _defect(self) -> str:
        """What the compiler does not say: the launch would fail."""
        need = sum(-(-r * 512 // 1024) * 1024 for r in (self.rows[0], max(self.rows[1:])))
        need += 8 * self.barriers
        if self.limit < need:
            return f"{need} bytes of shared memory of {self.limit}"
        if self.warpgroups > 8:
            return f"{self.warpgroups} warpgroups"
        if self.cluster > 16:
            return f"a cluster of {self.cluster}"
        second = self.blocks[-2] if len(self.blocks) > 1 else 1
        if second > 65535 or math.prod(self.blocks[:-2]) > 65535:
            return f"a grid of {self.blocks}"
        return ""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The sums; or why it would not be launched. Interpret mode may hang on several warpgroups."""
        defect = self._defect()
        if defect or self.warpgroups > 1 or math.prod(self.blocks) * self.cluster > 4:
            return Outcome(None, defect)
        value = np.asarray(inputs[0], np.float32) + 3.0
        return Outcome((value + value.sum() if self.sums else value * 2.0,))


@dataclass(frozen=True)
class MosaicPipeline(Case):
    """Blocks of rows through `emit_pipeline`, some stages deep."""

    family: ClassVar[str] = "mosaic_gpu_pipeline"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"

    rows: int
    columns: int
    block: int
    stages: int
    dtype: str
    sources: int
    scratch: int
    limit: int = _HOPPER_BYTES
    before: bool = False

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly what fits; wide blocks, rows past 256, odd columns and deep pipelines sometimes."""
        odd = rng.random() < 0.3
        block = rng.choice((16, 64, 128, 256, 512) if odd else (8, 16, 32, 64))
        return cls(
            block * rng.choice((1, 2, 5, 8)),
            rng.choice((20, 100, 128, 256, 512) if odd else (64, 128, 256)),
            block,
            rng.choice((1, 2, 3, 4, 8)),
            rng.choice(("float32", "float16", "bfloat16")),
            rng.choice((1, 2)),
            rng.choice((0, 0, 8, 64)),
        )

    def on(self, target: str) -> Self:
        """With the shared memory of a target; before Hopper pipelines only read."""
        chip = chips.get(target)
        assert isinstance(chip, GpuTarget)
        before = chip.capability < (9, 0)
        columns = 128 if before and self.columns % 64 else self.columns
        return replace(self, limit=chip.shared_memory_bytes, before=before, columns=columns)

    def source(self) -> str:
        """A module with one `plgpu.kernel` over one pipeline."""
        shape, block = (self.rows, self.columns), (self.block, self.columns)
        steps = self.rows // self.block
        names = ["x", "y"][: self.sources]
        value = " + ".join(f"{name}_block[...]" for name in names)
        total = f"o_block[...] = {value}"
        if self.before:
            total = f"o[pl.ds(at[0] * {self.block}, {self.block})] = {value}"
        extra = f", plgpu.SMEM(({self.scratch}, 128), jnp.float32)" if self.scratch else ""
        out_spec = "" if self.before else f"out_specs=[plgpu.BlockSpec({block!r}, lambda i: (i, 0))],"
        params = ", ".join([f"{name}_block" for name in names] + ([] if self.before else ["o_block"]))
        operands = ", ".join(names + ([] if self.before else ["o"]))
        specs = f"[plgpu.BlockSpec({block!r}, lambda i: (i, 0))] * {self.sources}"
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({shape!r}, jnp.{self.dtype}),) * {self.sources}

def kernel({", ".join(names)}, o, *scratch):
    def step(at, {params}):
        {total}

    plgpu.emit_pipeline(
        step, grid=({steps},), in_specs={specs}, {out_spec} max_concurrent_steps={self.stages}
    )({operands})

def run({", ".join(names)}, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct({shape!r}, jnp.{self.dtype}),
        scratch_types=[{extra.removeprefix(", ")}],
        interpret={INTERPRET},
    )({", ".join(names)})
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The sum of the inputs; or why it would not be launched."""
        size = 4 if self.dtype == "float32" else 2
        stages = min(self.stages, self.rows // self.block)
        each = -(-stages * self.block * self.columns * size // 1024) * 1024
        need = each * (self.sources + (not self.before)) + -(-self.scratch * 512 // 1024) * 1024
        need += 0 if self.before else 8 * stages
        if need > self.limit:
            return Outcome(None, f"{need} bytes of shared memory of {self.limit}")
        return Outcome((sum(np.asarray(array, np.float32) for array in inputs),))  # type: ignore[arg-type]
