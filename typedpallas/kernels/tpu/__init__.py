"""Typed kernels for TPUs: bodies in `typedpallas.tpu`'s spaces, with the masks, tables and copies that need them."""
