"""Moved to `typedpallas.compilers.ambient`; use that."""

from typedpallas.compilers.ambient import current_target, target_context  # noqa: F401
