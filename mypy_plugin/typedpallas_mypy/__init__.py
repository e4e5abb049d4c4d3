"""The mypy plugin of typedpallas: ``plugins = ["typedpallas_mypy"]``."""

from typedpallas_mypy.plugin import plugin

__all__ = ["plugin"]
