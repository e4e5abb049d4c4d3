"""Annotations that mean nothing, and refs used as values."""

import jax.numpy as jnp

from typedpallas import Dim, In, Out, Ref, f32, tpu


def swapped(x: In[f32, tpu.VMEM]) -> None: ...  # refused
def missing(x: In[int, f32]) -> None: ...  # refused
def wrong_element(x: In[tpu.VMEM, str]) -> None: ...  # refused


def kernel[M: Dim](x: In[tpu.VMEM, f32, M], o: Out[tpu.VMEM, f32, M]) -> None:
    o[...] = jnp.exp(x)  # refused
    o[...] = x  # refused
    o[...] = x.values()  # refused
    y: Ref[tpu.VMEM, f32, M] = x[...]  # refused
    o[...] = jnp.exp(y[...])
