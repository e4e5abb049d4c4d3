"""Rings of slots in shared memory: one warpgroup fills them, others use them; right, or broken in one way."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
EARLY = {"product-in-flight", "unordered-access", "read-before-wait"}
DEFECTS = {
    "filled not awaited": {"read-before-wait"},
    "another slot awaited": {"read-before-wait", "wait-without-signal", "copy-waited-twice"},
    "freed not awaited": EARLY,
    "freed too early": EARLY,
    "never freed": {"wait-without-signal"},
    "freed by one": {"barrier-arrivals"},
    "freed once too often": {"barrier-arrivals", *EARLY},
    "one copy too few": {"barrier-arrivals"},
    "filled counts one more": {"barrier-arrivals"},
    "filled counts one less": {"barrier-arrivals"},
    "freed counts one more": {"barrier-arrivals"},
    "freed counts one less": {"barrier-arrivals"},
    "result not committed": {"store-not-committed"},
    "result overwritten": {"read-before-wait"},
}
"""What is wrong, and the rules that name it rightly."""


@dataclass(frozen=True)
class Ring:
    """``groups`` warpgroups use each slot, by products or by loads; a product may run on for ``lag`` steps."""

    groups: int = 1
    slots: int = 2
    steps: int = 6
    products: bool = True
    lag: int = 0
    tiles: int = 1
    defect: str = ""

    @property
    def args(self) -> tuple[Any, ...]:
        """The operands: blocks along the rows."""
        return (jax.ShapeDtypeStruct((self.steps * 64, 64), jnp.float16),) * 2

    def run(self, x: Any, y: Any) -> Any:
        """The launch."""
        filled = 2 + (self.defect == "filled counts one more") - (self.defect == "filled counts one less")
        freed = self.groups + (self.defect == "freed counts one more") - (self.defect == "freed counts one less")
        return plgpu.kernel(
            self._kernel,
            out_type=jax.ShapeDtypeStruct((self.groups, self.tiles * 64, 64), jnp.float16),
            num_threads=self.groups + 1,
            thread_name="group",
            scratch_types=[
                plgpu.SMEM((self.slots, 64, 64), jnp.float16, transforms=TILED),
                plgpu.SMEM((self.slots, 64, 64), jnp.float16, transforms=TILED),
                plgpu.SMEM((self.groups, 64, 64), jnp.float16, transforms=TILED),
                plgpu.Barrier(num_arrivals=filled, num_barriers=self.slots),
                plgpu.Barrier(num_arrivals=freed, num_barriers=self.slots),
            ],
        )(x, y)

    def _kernel(self, x: Any, y: Any, out: Any, xs: Any, ys: Any, outs: Any, filled: Any, freed: Any) -> None:
        group = lax.axis_index("group")

        @pl.when(group < self.groups)
        def _() -> None:
            @pl.loop(0, self.tiles)
            def _(tile: Any) -> None:
                use = self._multiplied if self.products else self._loaded
                result = use(group, tile, xs, ys, filled, freed)
                if self.defect != "result overwritten":
                    plgpu.wait_smem_to_gmem(0)
                outs.at[group][...] = result
                if self.defect != "result not committed":
                    plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(outs.at[group], out.at[group, pl.ds(tile * 64, 64)])

            plgpu.wait_smem_to_gmem(0)

        pl.when(group == self.groups)(lambda: self._fill(x, y, xs, ys, filled, freed))

    def _fill(self, x: Any, y: Any, xs: Any, ys: Any, filled: Any, freed: Any) -> None:
        total = self.tiles * self.steps

        @pl.loop(0, total)
        def _(step: Any) -> None:
            slot, rows = lax.rem(step, self.slots), pl.ds(lax.rem(step, self.steps) * 64, 64)
            if self.defect != "freed not awaited":
                pl.when(step >= self.slots)(lambda: plgpu.barrier_wait(freed.at[slot]))
            plgpu.copy_gmem_to_smem(x.at[rows], xs.at[slot], filled.at[slot])
            if self.defect != "one copy too few":
                plgpu.copy_gmem_to_smem(y.at[rows], ys.at[slot], filled.at[slot])

        if self.defect != "freed not awaited":
            pl.loop(max(total - self.slots, 0), total)(
                lambda step: plgpu.barrier_wait(freed.at[lax.rem(step, self.slots)])
            )

    def _await(self, step: Any, filled: Any) -> None:
        if self.defect == "another slot awaited":
            step += 1
        if self.defect != "filled not awaited":
            plgpu.barrier_wait(filled.at[lax.rem(step, self.slots)])

    def _free(self, group: Any, step: Any, freed: Any) -> None:
        if self.defect == "never freed":
            return

        def arrive() -> None:
            plgpu.barrier_arrive(freed.at[lax.rem(step, self.slots)])
            if self.defect == "freed once too often":
                plgpu.barrier_arrive(freed.at[lax.rem(step, self.slots)])

        pl.when(group == 0)(arrive) if self.defect == "freed by one" else arrive()

    def _multiplied(self, group: Any, tile: Any, xs: Any, ys: Any, filled: Any, freed: Any) -> Any:
        first, early = tile * self.steps, self.defect == "freed too early"

        def inner(acc: Any) -> Any:
            @pl.loop(0, self.steps)
            def _(k: Any) -> None:
                slot = lax.rem(first + k, self.slots)
                self._await(first + k, filled)
                plgpu.wgmma(acc, xs.at[slot], ys.at[slot])
                if early:
                    self._free(group, first + k, freed)
                plgpu.wgmma_wait(self.lag)
                if not early:
                    pl.when(k >= self.lag)(lambda: self._free(group, first + k - self.lag, freed))

            sums = acc[...]
            for k in range(self.steps - self.lag, self.steps) if not early else ():
                self._free(group, first + k, freed)
            return sums

        return pl.run_scoped(inner, plgpu.ACC((64, 64), jnp.float32)).astype(jnp.float16)

    def _loaded(self, group: Any, tile: Any, xs: Any, ys: Any, filled: Any, freed: Any) -> Any:
        def turn(k: Any, total: Any) -> Any:
            step = tile * self.steps + k
            slot = lax.rem(step, self.slots)
            self._await(step, filled)
            free: Callable[[], None] = functools.partial(self._free, group, step, freed)
            if self.defect == "freed too early":
                free()
            total += xs[slot] + ys[slot]
            if self.defect != "freed too early":
                free()
            return total

        return lax.fori_loop(0, self.steps, turn, jnp.zeros((64, 64), jnp.float16))
