"""The mypy plugin of typedpallas."""
