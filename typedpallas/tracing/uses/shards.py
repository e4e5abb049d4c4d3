"""Kernels in a program that runs on several devices."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from typedpallas.chips import Target
from typedpallas.events import ShardedOperand
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall

_PARTITIONED_BY_HAND = ("custom_partitioning",)


def events(kernels: Sequence[KernelCall], avals: tuple[Any, ...], target: Target | None) -> Iterator[Located]:
    """One event for each TPU kernel that the partitioner would meet, at its call's line.

    ``avals`` are the program's arguments, pytrees of types that may say how they are spread over devices.
    """
    if target is None or target.machine != "tpu":
        return
    spread = _spread(avals)
    for kernel in kernels:
        if kernel.backend != "mosaic_tpu" or kernel.interpret or not kernel.path:
            continue
        around = [eqn for _, eqn in kernel.path]
        if any(eqn.primitive.name in _PARTITIONED_BY_HAND for eqn in around):
            continue
        left = _axes_left(around)
        if left:
            axes = ", ".join(f"`{axis}`" for axis in left)
            event = ShardedOperand(kernel=kernel.name, name="", spec=axes, devices=0)
            yield Located(event, kernel.place, kernel.name)
        elif left is None and spread is not None:
            name, spec, devices = spread
            event = ShardedOperand(kernel=kernel.name, name=name, spec=spec, devices=devices)
            yield Located(event, kernel.place, kernel.name)


def _spread(avals: tuple[Any, ...]) -> tuple[str, str, int] | None:
    """The first argument on several devices: its name, how it is spread, on how many."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(avals)[0]:
        sharding = getattr(leaf, "sharding", None)
        mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
        if mesh is not None and mesh.size > 1:
            return f"args{jax.tree_util.keystr(path)}", f"{spec}".replace("PartitionSpec", "P"), mesh.size
    return None


def _axes_left(around: Sequence[Any]) -> tuple[str, ...] | None:
    """The mesh axes that the `jax.shard_map`s around a kernel leave to the partitioner; none without one."""
    manual: set[str] = set()
    names: tuple[str, ...] | None = None
    # JAX 0.11 calls them `newly_manual_axes`.
    for eqn in around:
        if eqn.primitive.name == "shard_map":
            manual |= set(eqn.params.get("newly_manual_axes") or eqn.params.get("manual_axes") or ())
            names = tuple(eqn.params["mesh"].axis_names)
    return None if names is None else tuple(name for name in names if name not in manual)
