"""The project's own settings, ``[tool.typedpallas]`` in the pyproject.toml beside mypy's configuration."""

import tomllib
from pathlib import Path

from typedpallas import chips

_TARGETS: tuple[str, ...] = ()


def targets() -> tuple[str, ...]:
    """The chips that kernels must be legal on, by name."""
    return _TARGETS


def read(config_file: str | None) -> None:
    """Read the settings beside mypy's configuration file, or in the working directory.

    Raises:
        SystemExit: a target is unknown or the setting is no list of names; the message says which.
    """
    global _TARGETS
    path = (Path(config_file).parent if config_file else Path()) / "pyproject.toml"
    _TARGETS = _checked(path) if path.is_file() else ()


def _checked(path: Path) -> tuple[str, ...]:
    wanted = tomllib.loads(path.read_text()).get("tool", {}).get("typedpallas", {}).get("targets", [])
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise SystemExit(f"{path}: `targets` of [tool.typedpallas] is a list of names, found {wanted!r}")
    try:
        return tuple(chips.get(name).name for name in wanted)
    except chips.UnknownTarget as unknown:
        raise SystemExit(f"{path}: [tool.typedpallas] targets: {unknown}") from unknown
