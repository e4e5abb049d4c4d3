"""What JAX answered, kept from one run of mypy to the next, so that a re-check of known calls needs no JAX.

One text file in mypy's cache directory holds a line for each answer: a checksum, the question, a tab, the answer.
Lines are only ever appended, each in one write, so that several processes may do it at once; a line that is torn or
damaged fails its checksum and is as good as absent. The file's name is a digest of everything that answers depend on
besides the question: another JAX, another plugin or other settings of JAX have another file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
import zlib
from typing import Final

from mypy.options import Options

from typedpallas_mypy import version

_FOLDER: Final = "typedpallas"
_SUFFIX: Final = ".answers"
_PACKAGES: Final = ("jax", "jaxlib", "numpy")
SOURCES: Final = {
    "typedpallas_mypy": (
        *("call", "canonical", "evaluation", "jaxapi", "static", "symbols", "transfer", "value", "written"),
    ),
    "typedpallas": ("dims", "dtypes", "portable", "records"),
}
"""Where answers are computed, written and read."""
_MOST_BYTES: Final = 32 * 2**20
_UNUSED_SECONDS: Final = 30 * 24 * 3600

_OPEN: Store | None = None


class Store:
    """Questions and answers, each a line of text, in a file that need not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._glue = ""
        self._known = dict(self._read())

    def _read(self) -> list[tuple[str, str]]:
        """Every intact line of the file; a file grown too large is given up."""
        try:
            if os.path.getsize(self.path) > _MOST_BYTES:
                os.unlink(self.path)
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return []
        self._glue = "" if data.endswith(b"\n") or not data else "\n"
        found: list[tuple[str, str]] = []
        for line in data.split(b"\n"):
            if line[:8] == _checksum(line[9:]):
                question, _, answer = line[9:].decode().partition("\t")
                found.append((question, answer))
        return found

    def get(self, question: str) -> str | None:
        """The answer, if it is known."""
        return self._known.get(question)

    def put(self, question: str, answer: str) -> None:
        """Keep an answer; where that is not possible, only for this process."""
        self._known[question] = answer
        body = f"{question}\t{answer}".encode()
        line = self._glue.encode() + _checksum(body) + b" " + body + b"\n"
        try:
            if not os.path.exists(self.path):
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                _tidy(os.path.dirname(self.path))
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, line)
            finally:
                os.close(file)
        except OSError:
            return
        self._glue = ""


def _checksum(data: bytes) -> bytes:
    return b"%08x" % zlib.crc32(data)


def _tidy(folder: str) -> None:
    """Remove the files of versions that nobody has used for a month."""
    for entry in os.scandir(folder):
        if entry.name.endswith(_SUFFIX) and entry.stat().st_mtime < time.time() - _UNUSED_SECONDS:
            os.unlink(entry.path)


def use(options: Options) -> None:
    """Keep answers where mypy keeps its own; nowhere if it was told to keep nothing or to start anew."""
    global _OPEN
    _OPEN = None
    if not options.incremental or options.cache_dir == os.devnull:
        return
    try:
        digest = _digest()
    except OSError:
        return
    if digest is not None:
        _OPEN = Store(os.path.join(os.path.abspath(options.cache_dir), _FOLDER, digest + _SUFFIX))


def opened() -> Store | None:
    """The store of this run, if there is one."""
    return _OPEN


def _digest() -> str | None:
    """What answers depend on besides the question; none if JAX is missing, or a checkout that may change at will.

    JAX is looked for, not imported: that is what all this is for.

    Raises:
        OSError: a source is not a file that can be read.
    """
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("JAX_") and k != "JAX_PLATFORMS")
    digest = hashlib.sha256(repr((sys.version_info[:2], settings)).encode())
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None or not version.is_library(spec.origin):
            return None
        digest.update(spec.origin.encode() + _read(os.path.dirname(spec.origin), "version"))
    for package, modules in SOURCES.items():
        folder = sys.modules[package].__path__[0]
        for module in modules:
            digest.update(_read(folder, module))
    return digest.hexdigest()[:32]


def _read(folder: str, module: str) -> bytes:
    with open(os.path.join(folder, f"{module}.py"), "rb") as file:
        return file.read()
