"""Typed kernels for Hopper: bodies for `tp.kernel`, which move their data themselves."""
