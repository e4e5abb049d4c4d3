"""Originals and their mutants, read from `originals`: each original is a module, each of its mutants one edit of it.

An original defines ``TARGETS`` (chips; mutants are judged on the first), ``ARGS``, ``run(*arrays, interpret=...)``,
``reference(*arrays)`` and, where random numbers will not do, ``inputs(rng)``. The TOML file beside it lists its
mutants: ``name``, ``group`` of the defect, ``rule`` (those that name it rightly), ``old`` and ``new`` text.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).with_name("originals")

GROUPS = (
    *("placement", "direction", "types", "tile", "launch", "divisibility", "index map", "coverage", "race"),
    *("revisit", "capacity", "initialisation", "copies", "barriers", "slices", "target"),
)


@dataclass(frozen=True)
class Subject:
    """A kernel's source: an original (no group, no rules) or a mutant of it."""

    original: str
    name: str
    source: str
    group: str = ""
    rules: tuple[str, ...] = ()
    old: str = ""
    new: str = ""

    @property
    def typed(self) -> bool:
        """Whether it is written with `tp.launch`, so that mypy has something to say."""
        return "tp.launch(" in self.source


@dataclass(frozen=True)
class Module:
    """A subject's source, executed."""

    run: Callable[..., Any]
    args: tuple[jax.ShapeDtypeStruct, ...]
    targets: tuple[str, ...]
    reference: Callable[..., Any]
    inputs: Callable[[np.random.Generator], Sequence[Any]]


def originals() -> list[Subject]:
    """The right kernels, by name."""
    return [Subject(path.stem, path.stem, path.read_text()) for path in sorted(FOLDER.glob("*.py"))]


def mutants() -> list[Subject]:
    """Every mutant of every original.

    Raises:
        ValueError: an edit whose ``old`` text is not there exactly once, or a group that does not exist.
    """
    return [mutant for original in originals() for mutant in _of(original)]


def _of(original: Subject) -> list[Subject]:
    table = FOLDER / f"{original.original}.toml"
    entries = tomllib.loads(table.read_text())["mutant"] if table.exists() else []
    return [_mutant(original, entry) for entry in entries]


def _mutant(original: Subject, entry: dict[str, Any]) -> Subject:
    name, old, new = f"{original.original}/{entry['name']}", entry["old"], entry["new"]
    count = original.source.count(old)
    if count != 1:
        raise ValueError(f"{name}: expected `old` once in the original, found it {count} times: {old!r}")
    if entry["group"] not in GROUPS:
        raise ValueError(f"{name}: no group `{entry['group']}`")
    rules = entry["rule"]
    return Subject(
        original.original,
        name,
        original.source.replace(old, new),
        entry["group"],
        (rules,) if isinstance(rules, str) else tuple(rules),
        old,
        new,
    )


def chip(source: str) -> str:
    """The first of a source's ``TARGETS``."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TARGETS":
            return str(ast.literal_eval(node.value)[0])
    raise ValueError("a subject defines `TARGETS`")


def execute(source: str, path: Path) -> Module:
    """Run a subject's source as the module at ``path``, which is written so that every line can be read.

    Raises:
        typedpallas.PlacementError: a launch that is refused as soon as it is made.
    """
    path.write_text(source)
    names: dict[str, Any] = {"__name__": "subject", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), names)
    args = tuple(names["ARGS"])
    return Module(
        names["run"],
        args,
        tuple(names["TARGETS"]),
        names["reference"],
        names.get("inputs") or (lambda rng: [_random(rng, aval) for aval in args]),
    )


def _random(rng: np.random.Generator, aval: jax.ShapeDtypeStruct) -> Any:
    if jnp.issubdtype(aval.dtype, jnp.integer):
        return jnp.asarray(rng.integers(-20, 20, aval.shape), aval.dtype)
    return jnp.asarray(rng.normal(size=aval.shape) * 0.5, aval.dtype)
