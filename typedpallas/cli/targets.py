"""``typedpallas targets``: the chips, and the names given with ``--target``."""

import argparse
import json
import tomllib
from dataclasses import asdict
from pathlib import Path

from typedpallas import chips
from typedpallas.chips import Target, TpuTarget
from typedpallas.cli import terminal
from typedpallas.cli.names import UsageError, nearest

_GROUPS = ("all", "tpu", "gpu")
HEAD = ("target", "chip", "architecture", "on-chip memory for one kernel", "compiled with")


def run(options: argparse.Namespace) -> int:
    """Print the chips."""
    found = [chips.get(name) for name in chips.targets()]
    on = terminal.screen(folded=True)
    if options.format == "json":
        on.write(json.dumps([asdict(target) for target in found], indent=2))
        return 0
    for line in terminal.table(on, HEAD, [row(target) for target in found]):
        on.write(line)
    return 0


def row(target: Target) -> tuple[str, ...]:
    """What the table of chips says of one."""
    if isinstance(target, TpuTarget):
        return (target.name, target.device_kind, f"generation {target.generation}", _vmem(target), "libtpu")
    size = f"{target.shared_memory_bytes / 1024:.0f} KiB shared memory"
    under = f", as {target.compiled_as}" if target.compiled_as else ""
    return (
        target.name,
        target.device_kind,
        f"capability {target.compute_capability}",
        size,
        f"CUDA plug-in{under}",
    )


def _vmem(target: TpuTarget) -> str:
    default, most = target.vmem_default_bytes / 2**20, target.vmem_most_bytes / 2**20
    more = f", {most:.4g} on request" if most > default else ""
    return f"{default:.4g} MiB VMEM{more}"


def named(text: str) -> tuple[str, ...]:
    """The targets that ``--target`` names: names, aliases, ``all``, ``tpu``, ``gpu``, separated by commas.

    Raises:
        UsageError: a name is no target; the nearest is in the message.
    """
    found: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        if word in _GROUPS:
            found += [name for name in chips.targets() if word in ("all", chips.get(name).machine)]
        elif word:
            found.append(one(word).name)
    return tuple(dict.fromkeys(found))


def one(word: str) -> Target:
    """The target of this name or alias.

    Raises:
        UsageError: there is none; the nearest is in the message.
    """
    try:
        return chips.get(word)
    except chips.UnknownTarget:
        raise nearest(word, chips.targets(), "target") from None


def configured(start: Path) -> tuple[str, ...]:
    """``targets`` of ``[tool.typedpallas]`` in the nearest ``pyproject.toml`` at or above ``start``; none if unset.

    Raises:
        UsageError: the file or the setting cannot be read.
    """
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            setting = tomllib.loads(file.read_text()).get("tool", {}).get("typedpallas", {}).get("targets", [])
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{file}: {error}") from error
        if not isinstance(setting, list) or not all(isinstance(name, str) for name in setting):
            raise UsageError(f"{file}: `targets` of [tool.typedpallas] is a list of names")
        return named(",".join(setting))
    return ()
