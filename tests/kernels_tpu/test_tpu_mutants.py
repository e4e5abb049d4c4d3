"""Paged attention broken in ways that hang a core or spoil numbers: all are found on a CPU, given the lengths."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas.kernels.tpu import paged_attention, ragged_paged_attention

NAMING = {"copy-not-waited", "copy-waited-twice", "read-before-wait", "semaphore-leak", "shared-semaphore"}
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
    (queries(2), PAGES, PAGES, numbers([[1, 4, 2, 3], [0, 0, 0, 0]]), numbers([100, 0])),
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
KERNELS = (DECODING, MIXED)


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
            return getattr(module, kernel.name)(*arrays, **kernel.options)

        found = tp.check(run, *kernel.arrays, target="tpu-v5e").diagnostics
    finally:
        del sys.modules[name]
    return {item.rule for item in found if item.verdict == "refuted"}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_original_breaks_no_rule(kernel: Kernel, tmp_path: Path) -> None:
    assert refuted(kernel, (), tmp_path) == set()


@pytest.mark.parametrize(
    ("kernel", "edits"),
    [
        pytest.param(kernel, edits, id=f"{kernel.name}: {name}")
        for kernel in KERNELS
        for name, edits in kernel.mutants.items()
    ],
)
def test_mutants_are_found(kernel: Kernel, edits: Edits, tmp_path: Path) -> None:
    assert refuted(kernel, edits, tmp_path) & NAMING
