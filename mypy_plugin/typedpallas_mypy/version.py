"""What mypy's cache must not outlive: the source of the plugin and of the rule book, and the project's settings.

mypy itself hashes only the plugin's main module. Modules of installed packages are left out: nothing that the plugin
says is about them, and re-checking jax takes 15 seconds.
"""

import functools
import hashlib
import os
import sys
from pathlib import Path

import typedpallas
import typedpallas_mypy
from typedpallas_mypy import config, guard

_ROOTS = (Path(typedpallas_mypy.__path__[0]), Path(typedpallas.__path__[0]))
_RULE_BOOK = ("rules", "chips")
_LIBRARIES = tuple(
    {os.path.realpath(p) + os.sep for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")}
)


@functools.cache
def source_hash() -> str:
    """A digest of every file of the plugin and of the rule book."""
    plugin, library = _ROOTS
    files = [*plugin.rglob("*.py"), *library.glob("*.py")]
    for folder in _RULE_BOOK:
        files += [path for path in (library / folder).rglob("*") if path.suffix in (".py", ".toml")]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def is_library(path: str) -> bool:
    """Whether a module is a stub or an installed package's: nothing there is ours to judge."""
    return path.endswith(".pyi") or _holds_library(os.path.dirname(path))


@functools.cache
def _holds_library(folder: str) -> bool:
    """Whether a folder is part of an installed package. mypy asks for 1,000 modules of JAX in 100 folders."""
    return (os.path.realpath(folder) + os.sep).startswith(_LIBRARIES)


def cache_key(path: str) -> list[str] | None:
    """The part of a module's cache key that is ours; none for a module of an installed package."""
    return None if is_library(path) else [source_hash(), guard.mode(), str(config.shows_open()), *config.targets()]
