"""Kernels re-made from public bug reports, each with its fix."""
