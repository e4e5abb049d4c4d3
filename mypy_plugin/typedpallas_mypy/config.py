"""The project's own settings, ``[tool.typedpallas]`` in the pyproject.toml beside mypy's configuration."""

import sys
import tomllib
from pathlib import Path

from typedpallas import chips

_TARGETS: tuple[str, ...] = ()
_USAGE = 2
"""mypy's exit code for a configuration that means nothing."""


def targets() -> tuple[str, ...]:
    """The chips that kernels must be legal on, by name."""
    return _TARGETS


def read(config_file: str | None) -> None:
    """Read the settings beside mypy's configuration file, or in the working directory.

    Raises:
        SystemExit: a target is unknown or the setting is no list of names; standard error says which.
    """
    global _TARGETS
    path = (Path(config_file).parent if config_file else Path()) / "pyproject.toml"
    try:
        _TARGETS = _checked(path) if path.is_file() else ()
    except ValueError as error:
        print(f"{path}: [tool.typedpallas] targets: {error}", file=sys.stderr)
        raise SystemExit(_USAGE) from error


def _checked(path: Path) -> tuple[str, ...]:
    """The targets that a file asks for.

    Raises:
        ValueError: they are not what they must be.
    """
    wanted = tomllib.loads(path.read_text()).get("tool", {}).get("typedpallas", {}).get("targets", [])
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise ValueError(f"expected a list of names, found {wanted!r}")
    return tuple(chips.get(name).name for name in wanted)
