"""Kernels in a mesh of devices: axes that do not exist, specs that are too long, devices that are not there."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import typedpallas as tp

X = jax.ShapeDtypeStruct((32, 128), jnp.float32)
ALONG_X = P("x")
LOGICAL, MESH = pl.DeviceIdType.LOGICAL, pl.DeviceIdType.MESH
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


def _mesh(*sizes: int) -> AbstractMesh:
    names = ("x", "y")[: len(sizes)]
    return AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def _copied(device: Callable[[Any], Any], kind: Any, mesh: AbstractMesh, when: Any = None) -> Callable[..., Any]:
    """A remote copy in each step of a grid; ``device`` makes the id from the place on axis ``x``."""

    def kernel(x, o, sent, received):
        me = jax.lax.axis_index("x")

        def send():
            copy = pltpu.make_async_remote_copy(x, o, sent, received, device_id=device(me), device_id_type=kind)
            copy.start()
            copy.wait()

        if when is None:
            send()
        else:
            pl.when(when(me))(send)

    def call(x):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[ANYWHERE],
            out_specs=ANYWHERE,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(x)

    return lambda x: jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


def _said(run: Callable[..., Any]) -> list[tuple[str, str]]:
    return [(item.rule, item.message) for item in tp.check(run, X, target="tpu-v5e").diagnostics]


def _y() -> Any:
    return jax.lax.axis_index("y")


@pytest.mark.parametrize(
    ("device", "kind", "mesh", "when"),
    [
        (lambda me: (me + 1) % 4, LOGICAL, _mesh(4), None),
        (lambda me: jax.lax.rem(me + 3, 4), LOGICAL, _mesh(4), None),
        (lambda me: {"x": (me + 1) % 4}, MESH, _mesh(4), None),
        (lambda me: ((me + 1) % 4,), MESH, _mesh(4), None),
        (lambda me: 3 - me, LOGICAL, _mesh(4), None),
        (lambda me: me + 1, LOGICAL, _mesh(4), lambda me: me < 3),
        (lambda me: jnp.minimum(me + 1, 3), LOGICAL, _mesh(4), None),
        (lambda me: me * 4 + (_y() + 1) % 4, LOGICAL, _mesh(2, 4), None),
        (lambda me: (1 - me, _y()), MESH, _mesh(2, 4), None),
        (lambda me: {"y": (_y() + 1) % 4}, MESH, _mesh(2, 4), None),
        (lambda me: {("x", "y"): (me * 4 + _y() + 1) % 8}, MESH, _mesh(2, 4), None),
        (lambda me: me, LOGICAL, _mesh(1), None),
    ],
)
def test_devices_that_are_there(device: Any, kind: Any, mesh: AbstractMesh, when: Any) -> None:
    assert not _said(_copied(device, kind, mesh, when))


@pytest.mark.parametrize(
    ("device", "kind", "mesh", "words"),
    [
        (lambda me: me + 1, LOGICAL, _mesh(4), "from 0 to 3 along the mesh, found 4"),
        (lambda me: me - 1, LOGICAL, _mesh(4), "found -1"),
        (lambda me: (me + 1) % 8, LOGICAL, _mesh(4), "found 4"),
        (lambda me: 7, LOGICAL, _mesh(4), "found 7"),
        (lambda me: {"x": me + 1}, MESH, _mesh(4), "along mesh axis `x`, found 4"),
        (lambda me: (me, _y() + 1), MESH, _mesh(2, 4), "along mesh axis `y`, found 4"),
        (lambda me: me * 8 + _y(), LOGICAL, _mesh(2, 4), "from 0 to 7 along the mesh, found 8"),
        (lambda me: (me,), MESH, _mesh(2, 4), "a coordinate for each of the mesh's 2 axes, found 1"),
        (lambda me: me + 1, LOGICAL, _mesh(1), "from 0 to 0 along the mesh, found 1"),
    ],
)
def test_devices_that_are_not(device: Any, kind: Any, mesh: AbstractMesh, words: str) -> None:
    ((rule, message),) = _said(_copied(device, kind, mesh))
    assert rule == "remote-device-out-of-range" and words in message


def test_an_axis_in_a_device_id() -> None:
    ((rule, message),) = _said(_copied(lambda me: {"z": 0}, MESH, _mesh(2, 4)))
    assert rule == "unknown-mesh-axis" and "expected one of `x`, `y`, found `z` in `device_id`" in message


def _doubled(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def _placed(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * jax.lax.axis_index("z").astype(jnp.float32)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def _spread(function: Any = _doubled, spec: Any = ALONG_X, out: Any = ALONG_X, **more: Any) -> Callable[..., Any]:
    def run(x):
        return jax.shard_map(function, mesh=_mesh(4), in_specs=spec, out_specs=out, check_vma=False, **more)(x)

    return run


@pytest.mark.parametrize(
    ("run", "rule", "words"),
    [
        (_spread(spec=P("z")), "unknown-mesh-axis", "expected `x`, found `z` in `in_specs`"),
        (_spread(axis_names={"z"}), "unknown-mesh-axis", "found `z` in `axis_names`"),
        (_spread(_placed), "unknown-mesh-axis", "found `z` in the kernel"),
        (_spread(spec=P(None, None, "x")), "shard-rank", "at most 2 entries, found 3"),
        (_spread(out=P("x", None, None)), "shard-rank", "the spec of `out_specs` is too long"),
        (lambda x: jax.device_put(x, NamedSharding(_mesh(4), P(None, None, "x"))), "shard-rank", "found 3"),
        (lambda x: jax.device_put(x, NamedSharding(_mesh(4), P("z"))), "unknown-mesh-axis", "`z`"),
    ],
)
def test_specs_and_names(run: Callable[..., Any], rule: str, words: str) -> None:
    (item,) = tp.check(run, X, target="tpu-v5e").diagnostics
    assert item.rule == rule and words in item.message
    assert Path(item.file).name == Path(__file__).name and item.line


def test_a_right_mesh_is_not_mentioned() -> None:
    assert not tp.check(_spread(), X, target="tpu-v5e").diagnostics
