"""Kernels broken in ways that hang a core or spoil numbers: all are found on a CPU, given the sequences' lengths."""

import functools
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import typedpallas as tp
from typedpallas.kernels.tpu import paged_attention, ragged_paged_attention, ring

NAMING = {
    *("copy-not-waited", "copy-waited-twice", "read-before-wait", "semaphore-leak", "shared-semaphore"),
    *("wait-without-signal", "remote-device-out-of-range", "index-out-of-bounds", "read-before-write"),
}
"""Rules that name such mistakes."""
PAGES = jax.ShapeDtypeStruct((1, 8, 16, 128), jnp.bfloat16)
type Edits = tuple[tuple[str, str], ...]


def queries(tokens: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((tokens, 8, 128), jnp.bfloat16)


def numbers(values: Any) -> jax.Array:
    return jnp.asarray(values, jnp.int32)


@dataclass(frozen=True)
class Kernel:
    """A module of one public function of its name, with its arguments and its mutants: edits of its source."""

    module: Any
    arrays: tuple[Any, ...]
    options: dict[str, int]
    mutants: dict[str, Edits]
    function: str = ""
    """The public one; unless given, of the module's name."""
    chips: int = 1
    """How many it runs on, along axis ``x``."""

    @property
    def source(self) -> str:
        return Path(self.module.__file__).read_text()

    @property
    def name(self) -> str:
        return str(self.module.__name__).rpartition(".")[2]


WAIT = "        pages.wait(step, v, v_slots.at[slot], arrived.at[1, slot])\n"
AHEAD = "        pl.when(step + 1 < end)(functools.partial(start, step + 1, 1 - slot))\n"
FIRST = "    pl.when(first < end)(functools.partial(start, first, lax.rem(first, 2)))\n"
USE = "k_slots[slot], v_slots[slot]"
EACH = "        for copy in self._copies(step, source, slot, arrived):\n            copy.wait()"
DECODING = Kernel(
    paged_attention,
    (queries(2), PAGES, PAGES, numbers([[1, 4, 2, 3, 5, 7, 6], [0] * 7]), numbers([100, 0])),
    {"pages_per_step": 2},
    {
        "a wait is dropped": ((WAIT, ""),),
        "a wait is there twice": ((WAIT, WAIT * 2),),
        "some copies are waited for": ((EACH, EACH.replace(":\n", "[1:]:\n")),),
        "the other slot is read": ((USE, "k_slots[1 - slot], v_slots[slot]"),),
        "a slot is read before its wait": (
            (WAIT, "        early = v_slots[slot]\n" + WAIT),
            (USE, "k_slots[slot], early"),
        ),
        "copies go to the slot in use": ((AHEAD, AHEAD.replace("1 - slot", "slot")),),
        "copies begin behind the end": ((AHEAD, "        start(step + 1, 1 - slot)\n"),),
        "nothing is begun": ((FIRST, ""),),
        "a sequence without keys is begun": ((FIRST, "    start(first, lax.rem(first, 2))\n"),),
        "the wrong semaphore is waited for": ((WAIT, WAIT.replace("1, slot", "0, slot")),),
    },
)

EVERY = "        for copy in copies(turn, slot):\n            copy.wait()\n"
SOON = "        pl.when(turn + 1 < end)(functools.partial(start, turn + 1))\n"
BEGUN = "    pl.when(first < end)(functools.partial(start, first))\n"
BOTH = "(k_slots[slot], v_slots[slot])"
MIXED = Kernel(
    ragged_paged_attention,
    (
        *(queries(16), PAGES, PAGES, numbers([[1, 4, 2, 3], [0, 0, 0, 0], [5, 6, 0, 0]])),
        *(numbers([60, 0, 20]), numbers([0, 7, 7, 8])),
    ),
    {"pages_per_step": 2, "block": 16},
    {
        "no wait is left": ((EVERY, ""),),
        "a wait is dropped": ((EVERY, EVERY.replace("copies(turn, slot)", "list(copies(turn, slot))[1:]")),),
        "waits are there twice": ((EVERY, EVERY * 2),),
        "the other slot is read": ((BOTH, "(k_slots[1 - slot], v_slots[slot])"),),
        "a slot is read before its wait": (
            (EVERY, "        early = v_slots[slot]\n" + EVERY),
            (BOTH, "(k_slots[slot], early)"),
        ),
        "copies go to the slot in use": (("lax.rem(turn, 2)):", "lax.rem(turn + 1, 2)):"),),
        "copies begin too early": ((SOON, SOON.replace("turn + 1", "turn + 2")),),
        "copies begin behind the end": ((SOON, "        start(turn + 1)\n"),),
        "the last slot is not drained": (("pl.loop(first, end)", "pl.loop(first, end - 1)"),),
        "nothing is begun": ((BEGUN, ""),),
        "a sequence without queries is begun": ((BEGUN, "    start(first)\n"),),
        "slots share a semaphore": (("arrived.at[1, slot]", "arrived.at[1, 0]"),),
    },
)

ALL = "        for copy in copies:\n            copy.wait()\n\n\ndef all_gather_matmul"
MULTIPLIED = "        for copy in copies:\n            copy.wait()\n\n\ndef _ways"
MET = "    pl.semaphore_wait(barrier, 2)\n"
RING_MUTANTS: dict[str, Edits] = {
    "neighbours are not waited for": ((MET, ""),),
    "one neighbour is waited for": ((MET, MET.replace("2", "1")),),
    "three neighbours are waited for": ((MET, MET.replace("2", "3")),),
    "a neighbour is behind the last chip": (("right, left = lax.rem(me + 1, count)", "right, left = me + 1"),),
}
GATHERED = Kernel(
    ring,
    (jax.ShapeDtypeStruct((128, 128), jnp.float32),),
    {},
    {
        **RING_MUTANTS,
        "nothing is waited for": ((ALL, ALL.replace("copy.wait()", "pass")),),
        "waits are there twice": ((ALL, ALL.replace("copy.wait()", "copy.wait(), copy.wait()")),),
        "arrivals are not waited for": ((ALL, ALL.replace("wait()", "wait_send()")),),
        "departures are not waited for": ((ALL, ALL.replace("wait()", "wait_recv()")),),
        "a step is too many": (
            (
                "    for step in range(count - 1):\n        copies = []",
                "    for step in range(count):\n        copies = []",
            ),
        ),
        "a chip's own part is left out": (("    with tpu.copy(x, out.at[me], own):\n", "    if True:\n"),),
    },
    "all_gather",
    chips=4,
)
MULTIPLIED_RING = Kernel(
    ring,
    (jax.ShapeDtypeStruct((128, 128), jnp.float32), jax.ShapeDtypeStruct((512, 128), jnp.float32)),
    {},
    {
        **RING_MUTANTS,
        "nothing is waited for": ((MULTIPLIED, MULTIPLIED.replace("copy.wait()", "pass")),),
        "waits are there twice": ((MULTIPLIED, MULTIPLIED.replace("copy.wait()", "copy.wait(), copy.wait()")),),
        "arrivals are not waited for": ((MULTIPLIED, MULTIPLIED.replace("wait()", "wait_send()")),),
        "departures are not waited for": ((MULTIPLIED, MULTIPLIED.replace("wait()", "wait_recv()")),),
        "the last step sends too": (("if step < count - 1 else ()", "if step < count else ()"),),
        "a chip's own part is left out": (("    parts[me] = x[...]\n", ""),),
    },
    "all_gather_matmul",
    chips=4,
)
KERNELS = (DECODING, MIXED, GATHERED, MULTIPLIED_RING)


def refuted(kernel: Kernel, edits: Edits, folder: Path) -> set[str]:
    """The rules that a version of the kernel breaks."""
    source, name = kernel.source, f"edited_{kernel.name}"
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)

        def run(*arrays: Any) -> Any:
            call = functools.partial(getattr(module, kernel.function or kernel.name), **kernel.options)
            if kernel.chips == 1:
                return call(*arrays)
            mesh = jax.sharding.AbstractMesh((kernel.chips,), ("x",), (jax.sharding.AxisType.Auto,))
            ring = functools.partial(call, axis="x")
            return jax.shard_map(ring, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(*arrays)

        found = tp.check(run, *kernel.arrays, target="tpu-v5e").diagnostics
    finally:
        del sys.modules[name]
    return {item.rule for item in found if item.verdict == "refuted"}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function or kernel.name)
def test_the_original_breaks_no_rule(kernel: Kernel, tmp_path: Path) -> None:
    assert refuted(kernel, (), tmp_path) == set()


@pytest.mark.parametrize(
    ("kernel", "edits"),
    [
        pytest.param(kernel, edits, id=f"{kernel.function or kernel.name}: {name}")
        for kernel in KERNELS
        for name, edits in kernel.mutants.items()
    ],
)
def test_mutants_are_found(kernel: Kernel, edits: Edits, tmp_path: Path) -> None:
    assert refuted(kernel, edits, tmp_path) & NAMING
