"""`launch-limit`."""

import math
from collections.abc import Iterator

from typedpallas.events import BlockLaunch, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_MOST_WARPGROUPS, _THREADS = 8, 128
_MOST_CLUSTER = 16
_MOST_BLOCKS = 65535
"""Along the grid's second and third axis, counted from the fastest."""
_FREE = 2
"""Axes of a grid, from the fastest, that are axes of CUDA's grid too; slower ones make one axis together."""

_MODULE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

GROUPS = {groups}
ARGS = (jax.ShapeDtypeStruct((GROUPS, 128), jnp.float32),)

def kernel(x, o):
    group = lax.axis_index("group")
    o[group] = x[group] * 2.0

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((GROUPS, 128), jnp.float32),
        num_threads=GROUPS,
        thread_name="group",
    )(x)

def reference(x):
    return x * 2.0
"""


class LaunchLimit(Rule):
    """A launch of more warpgroups, of a larger cluster or of a longer grid axis than a GPU takes.

    A block has at most 1024 threads: 8 warpgroups. A cluster has at most 16 blocks, 8 where it is not asked for more
    (Mosaic GPU asks). The grid's last axis may be as long as you like; the one before it, and all others multiplied,
    have at most 65535 blocks, clusters counted whole.

    Machines: GPU (Mosaic GPU). Source: CUDA's programming guide, and launches on an H200 on both sides of each limit:
    the compiler takes all of them, and the launch fails with `CUDA_ERROR_INVALID_VALUE` or
    `CUDA_ERROR_INVALID_CLUSTER_SIZE`.
    """

    slug = "launch-limit"
    judges = (BlockLaunch,)
    message = "`{kernel}` cannot be launched: expected at most {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(groups=9), good=_MODULE.format(groups=8), targets=("h100",), compiler="accepts"
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BlockLaunch)
        if event.warpgroups > _MOST_WARPGROUPS:
            yield self.refuted(
                kernel=event.kernel,
                expected=f"{_MOST_WARPGROUPS} warpgroups ({_MOST_WARPGROUPS * _THREADS} threads) in a block",
                found=f"{event.warpgroups} ({event.warpgroups * _THREADS} threads)",
                help="use fewer warpgroups, and give each more of the block's work",
            )
        size = math.prod(event.cluster)
        if size > _MOST_CLUSTER:
            written = " x ".join(map(str, event.cluster))
            yield self.refuted(
                kernel=event.kernel,
                expected=f"{_MOST_CLUSTER} blocks in a cluster",
                found=f"{size} ({written})",
                help=f"use clusters of at most {_MOST_CLUSTER} blocks; 2 or 4 mostly do",
            )
        yield from self._grid(event)

    def _grid(self, event: BlockLaunch) -> Iterator[Finding]:
        clusters = (*(1,) * (3 - len(event.cluster)), *event.cluster)[-3:]
        second, third = _axes(event.grid)
        for length, cluster, which in (
            (second, clusters[1], "the second to last"),
            (third, clusters[0], "the first"),
        ):
            if length * cluster > _MOST_BLOCKS:
                yield self.refuted(
                    kernel=event.kernel,
                    expected=f"{_MOST_BLOCKS} blocks along {which} axis of the grid",
                    found=f"{length * cluster} (grid={event.grid})",
                    help="put the longest axis of the grid last, or join axes into the last one",
                )


def _axes(grid: tuple[int, ...]) -> tuple[int, int]:
    """Blocks along CUDA's second and third axis."""
    if len(grid) <= _FREE:
        return (grid[0] if len(grid) == _FREE else 1), 1
    return grid[-2], math.prod(grid[:-2])
