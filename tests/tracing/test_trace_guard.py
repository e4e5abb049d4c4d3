"""A fault of the checker is said aloud and refuses nothing."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas.tracing import memory, windows
from typedpallas.tracing.guard import CheckerFault

S = jax.ShapeDtypeStruct((7, 128), jnp.float32)


def _kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def _run(x):
    block = pl.BlockSpec((7, 64), lambda i: (0, i))
    return pl.pallas_call(_kernel, grid=(2,), in_specs=[block], out_specs=block, out_shape=S)(x)


def _broken(kernel, context):
    raise KeyError("num_consts")
    yield


def test_the_rest_is_still_judged(monkeypatch):
    monkeypatch.delenv("TYPEDPALLAS_DEBUG", raising=False)
    monkeypatch.setattr(memory, "events", _broken)
    with pytest.warns(CheckerFault, match="could not check the memory of `_kernel`"):
        report = tp.check(_run, S, target="tpu-v5e")
    assert {item.rule for item in report.diagnostics} == {"unaligned-lane"}


def test_nothing_is_refused_for_it(monkeypatch):
    monkeypatch.delenv("TYPEDPALLAS_DEBUG", raising=False)
    monkeypatch.setattr(windows, "events", _broken)
    with pytest.warns(CheckerFault, match="the blocks"):
        assert tp.check(_run, S, target="tpu-v5e").ok


def test_debugging_raises_it(monkeypatch):
    monkeypatch.setenv("TYPEDPALLAS_DEBUG", "1")
    monkeypatch.setattr(memory, "events", _broken)
    with pytest.raises(KeyError):
        tp.check(_run, S, target="tpu-v5e")
