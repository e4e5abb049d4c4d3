"""The rules' examples as modules: written to files, imported, with inputs for their arguments."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from typedpallas import rules
from typedpallas.rules import Rule

type Side = Literal["bad", "good"]

RULES = tuple(rules.all_rules().values())
SLUGS = tuple(rules.all_rules())


@dataclass(frozen=True)
class Case:
    """One example of one rule, on one target."""

    rule: Rule
    target: str

    def __str__(self) -> str:
        return f"{self.rule.slug}-{self.target}"


def cases(level: str | None = None) -> list[Case]:
    """Every rule's example on each of its targets, where the example is shown at ``level``."""
    return [
        Case(rule, target)
        for rule in RULES
        if level is None or level in rule.example.levels
        for target in rule.example.targets
    ]


def file_name(rule: Rule, side: Side) -> str:
    """The file that one side of an example is written to."""
    return f"{rule.slug.replace('-', '_')}_{side}.py"


def write_all(folder: Path) -> None:
    """All examples as files."""
    for rule in RULES:
        for side in ("bad", "good"):
            (folder / file_name(rule, side)).write_text(getattr(rule.example, side))  # type: ignore[arg-type]


def load(folder: Path, rule: Rule, side: Side) -> ModuleType:
    """One side of an example, imported anew.

    Raises:
        Exception: what the module raises; a launch judges its pattern when it is made.
    """
    path = folder / file_name(rule, side)
    spec = importlib.util.spec_from_file_location(f"rule_example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def inputs(args: Any, seed: int = 0) -> list[jax.Array]:
    """Random arrays of these shapes; integers are small, so that they serve as indices."""
    random = np.random.default_rng(seed)
    made = []
    for leaf in jax.tree.leaves(args):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            made.append(jnp.asarray(random.standard_normal(leaf.shape), leaf.dtype))
        else:
            made.append(jnp.asarray(random.integers(0, 2, leaf.shape), leaf.dtype))
    return made
