"""What mypy's cache must not outlive: the source of the plugin and of the rule book, and the project's settings.

mypy itself hashes only the plugin's main module. Modules of installed packages are left out: nothing that the plugin
says is about them, and re-checking jax takes 15 seconds.
"""

import functools
import hashlib
import os
import sys

import typedpallas
import typedpallas_mypy
from typedpallas_mypy import config, guard

_PLUGIN, _LIBRARY = typedpallas_mypy.__path__[0], typedpallas.__path__[0]
_PARTS = ("", "chips", "events", "rules", "starts")
"""The folders of the library that the plugin imports or reads, ``""`` for its own modules."""
_SUFFIXES = (".py", ".toml", ".tsv")
_FOLDERS = tuple({p + os.sep for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")})
_LIBRARIES = tuple({os.path.realpath(folder) + os.sep for folder in _FOLDERS})


@functools.cache
def source_hash() -> str:
    """A digest of every file of the plugin and of the rule book, as they were when this process started."""
    return _digest()


_AS_STARTED = "as started"
_started: tuple[object, ...] | None = None


def snapshot() -> str:
    """The plugin's version as mypy sees it, which asks once in a run; a daemon asks again at each ``dmypy run``.

    It starts anew if the answer is another: the sources have changed, or the project's settings. Between runs the
    answer is always the same, because mypy would read all of JAX again for another; there `cache_key` tells.
    """
    global _started
    now = (source_hash() if _started is None else _digest(), config.targets(), config.shows_open())
    _started = _started or now
    return _AS_STARTED if now == _started else repr(now)


def _digest() -> str:
    digest = hashlib.sha256()
    for path in files():
        digest.update(path.removeprefix(_PLUGIN).removeprefix(_LIBRARY).encode())
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def files() -> list[str]:
    """The path of every file that is counted, sorted."""
    library = [path for part in _PARTS for path in _files(_LIBRARY, part, deep=part != "")]
    return sorted(_files(_PLUGIN, deep=True) + library)


def _files(*folder: str, deep: bool) -> list[str]:
    """The sources and tables in a folder, and below it if ``deep``; `pathlib` takes three times as long."""
    found = []
    for where, below, names in os.walk(os.path.join(*folder)):
        found += [os.path.join(where, name) for name in names if name.endswith(_SUFFIXES)]
        below[:] = [name for name in below if deep and name != "__pycache__"]
    return found


@functools.cache
def is_library(path: str) -> bool:
    """Whether a module is a stub or an installed package's: nothing there is ours to judge."""
    return path.endswith(".pyi") or _holds_library(os.path.dirname(path))


@functools.cache
def _holds_library(folder: str) -> bool:
    """Whether a folder is part of an installed package. mypy asks for 1,000 modules of JAX in 100 folders."""
    for root in _FOLDERS:
        if folder.startswith(root):
            package = folder[len(root) :].partition(os.sep)[0]
            return _is_installed(root + package)
    return _is_installed(folder)


@functools.cache
def _is_installed(folder: str) -> bool:
    """Whether a folder, wherever links lead, is where packages are installed; a link may lead to a checkout."""
    return (os.path.realpath(folder) + os.sep).startswith(_LIBRARIES)


def cache_key(path: str) -> list[str] | None:
    """The part of a module's cache key that is ours; none for a module of an installed package."""
    return None if is_library(path) else [source_hash(), guard.mode(), str(config.shows_open()), *config.targets()]
