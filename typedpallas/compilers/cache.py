"""Verdicts on disk: what a compiler said of a module, so that it is asked once.

A verdict is kept under the sha256 of everything it depends on: the module without source locations, the
target's description, the compiler's and JAX's versions, the flags in the environment, and this format. Files
are written whole under another name and moved into place, so several processes may share the folder; a file
that is not a verdict is as good as absent.
"""

import contextlib
import gzip
import hashlib
import json
import os
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

FORMAT = 2
"""Raised whenever what is stored, or what the key covers, changes."""

_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


def folder() -> Path:
    """Where verdicts are kept: ``$TYPEDPALLAS_CACHE``, or the platform's place for caches."""
    if chosen := os.environ.get("TYPEDPALLAS_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "typedpallas"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "typedpallas"


def key(text: str, target: dict[str, Any], compiler: str, options: dict[str, Any]) -> str:
    """The name of the verdict on this module: 64 hexadecimal digits."""
    flags = {name: os.environ.get(name, "") for name in _FLAGS}
    parts = [FORMAT, text, target, compiler, options, flags]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def read(name: str) -> dict[str, Any] | None:
    """The verdict of this name, or none."""
    try:
        found = json.loads(gzip.decompress(_path(name).read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    if not isinstance(found, dict) or found.get("name") != name or found.get("format") != FORMAT:
        return None
    verdict = found.get("verdict")
    return verdict if isinstance(verdict, dict) else None


def write(name: str, verdict: dict[str, Any]) -> None:
    """Keeps the verdict; where the folder cannot be written, it is not kept."""
    content = {"format": FORMAT, "name": name, "verdict": verdict}
    packed = gzip.compress(json.dumps(content).encode(), compresslevel=3, mtime=0)
    path = _path(name)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix="new-", delete=False) as file:
            file.write(packed)
        os.replace(file.name, path)


def _path(name: str) -> Path:
    return folder() / "verdicts" / name[:2] / f"{name}.json.gz"
