"""Paged attention broken in ways that hang a core or spoil numbers: all are found on a CPU, given the lengths."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas.kernels.tpu import paged_attention

SOURCE = Path(paged_attention.__file__).read_text()
WAIT = "        pages.wait(step, v, v_slots.at[slot], arrived.at[1, slot])\n"
AHEAD = "        pl.when(step + 1 < end)(functools.partial(start, step + 1, 1 - slot))\n"
FIRST = "    pl.when(first < end)(functools.partial(start, first, lax.rem(first, 2)))\n"
USE = "k_slots[slot], v_slots[slot]"
EACH = "        for copy in self._copies(step, source, slot, arrived):\n            copy.wait()"
MUTANTS: dict[str, tuple[str, str]] = {
    "a wait is dropped": (WAIT, ""),
    "a wait is there twice": (WAIT, WAIT * 2),
    "some copies are waited for": (EACH, EACH.replace(":\n", "[1:]:\n")),
    "the other slot is read": (USE, "k_slots[1 - slot], v_slots[slot]"),
    "a slot is read before its wait": (WAIT, "        early = v_slots[slot]\n" + WAIT),
    "copies go to the slot in use": (AHEAD, AHEAD.replace("1 - slot", "slot")),
    "copies begin behind the end": (AHEAD, "        start(step + 1, 1 - slot)\n"),
    "nothing is begun": (FIRST, ""),
    "a sequence without keys is begun": (FIRST, "    start(first, lax.rem(first, 2))\n"),
    "the wrong semaphore is waited for": (WAIT, WAIT.replace("1, slot", "0, slot")),
}  # fmt: skip
ALSO = {"a slot is read before its wait": (USE, "k_slots[slot], early")}
PAGES = jax.ShapeDtypeStruct((1, 8, 16, 128), jnp.bfloat16)
TABLES = jnp.asarray([[1, 4, 2, 3], [0, 0, 0, 0]], jnp.int32)
LENGTHS = jnp.asarray([100, 0], jnp.int32)
ARRAYS = (jax.ShapeDtypeStruct((2, 8, 128), jnp.bfloat16), PAGES, PAGES, TABLES, LENGTHS)


def refuted(source: str, folder: Path, name: str) -> set[str]:
    """The rules that a version of the kernel breaks."""
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)

        def run(*arrays: Any) -> Any:
            return module.paged_attention(*arrays, pages_per_step=2)

        found = tp.check(run, *ARRAYS, target="tpu-v5e").diagnostics
    finally:
        del sys.modules[name]
    return {item.rule for item in found if item.verdict == "refuted"}


def test_the_original_breaks_no_rule(tmp_path: Path) -> None:
    assert refuted(SOURCE, tmp_path, "paged_original") == set()


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found(name: str, tmp_path: Path, replaced: Callable[..., str]) -> None:
    source = replaced(SOURCE, *MUTANTS[name])
    if name in ALSO:
        source = replaced(source, *ALSO[name])
    assert refuted(source, tmp_path, f"paged_{len(name)}") & {
        "copy-not-waited", "copy-waited-twice", "read-before-wait", "semaphore-leak", "wait-without-signal"
    }  # fmt: skip


@pytest.fixture
def replaced() -> Callable[[str, str, str], str]:
    def replace(source: str, old: str, new: str) -> str:
        assert source.count(old) == 1
        return source.replace(old, new)

    return replace
