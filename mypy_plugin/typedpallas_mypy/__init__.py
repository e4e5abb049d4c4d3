"""The mypy plugin of typedpallas: ``plugins = ["typedpallas_mypy"]``."""

from typedpallas_mypy import version
from typedpallas_mypy.plugin import plugin

__all__ = ["plugin"]


def __getattr__(name: str) -> str:
    """``__version__``, by which mypy's daemon learns that the plugin changed under it."""
    if name == "__version__":
        return version.snapshot()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
