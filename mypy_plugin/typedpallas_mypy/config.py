"""The project's own settings, ``[tool.typedpallas]`` in the pyproject.toml beside mypy's configuration."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from typedpallas import chips

SHOW_OPEN: Final = "TYPEDPALLAS_SHOW_OPEN"
"""The environment variable that asks for ``show-open`` in one run of mypy."""
TARGETS: Final = "TYPEDPALLAS_TARGETS"
"""The environment variable that names the targets for one run of mypy, separated by commas, instead of the file."""

_TARGETS: tuple[str, ...] = ()
_SHOWS_OPEN = False
_USAGE = 2
"""mypy's exit code for a configuration that means nothing."""


def targets() -> tuple[str, ...]:
    """The chips that kernels must be legal on, by name."""
    return _TARGETS


def shows_open() -> bool:
    """Whether what could not be decided is listed too, as notes."""
    return _SHOWS_OPEN


def read(config_file: str | None) -> None:
    """Read the settings beside mypy's configuration file, or in the working directory.

    Raises:
        SystemExit: a setting means nothing, such as an unknown target; standard error says which.
    """
    global _TARGETS, _SHOWS_OPEN
    path = (Path(config_file).parent if config_file else Path()) / "pyproject.toml"
    try:
        settings = tomllib.loads(path.read_text()).get("tool", {}).get("typedpallas", {}) if path.is_file() else {}
        named = os.environ.get(TARGETS)
        _TARGETS = _checked(settings.get("targets", []) if named is None else list(filter(None, named.split(","))))
        _SHOWS_OPEN = _truth(settings.get("show-open", False)) or bool(os.environ.get(SHOW_OPEN))
    except ValueError as error:
        print(f"{path}: [tool.typedpallas] {error}", file=sys.stderr)
        raise SystemExit(_USAGE) from error


def _checked(wanted: Any) -> tuple[str, ...]:
    """The targets that a file asks for.

    Raises:
        ValueError: they are not what they must be.
    """
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise ValueError(f"targets: expected a list of names, found {wanted!r}")
    try:
        return tuple(chips.get(name).name for name in wanted)
    except ValueError as error:
        raise ValueError(f"targets: {error}") from error


def _truth(wanted: Any) -> bool:
    """A setting that is true or false.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(wanted, bool):
        raise ValueError(f"show-open: expected true or false, found {wanted!r}")
    return wanted
