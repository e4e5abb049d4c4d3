"""One set of public names: at run time, in the stubs, and element types that are JAX's."""

import ast
import importlib.metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import typedpallas
from typedpallas import dtypes, gpu, spaces, tpu
from typedpallas.dtypes import DType

STUBS = Path(__file__).parents[2] / "stubs" / "typedpallas-stubs"


def declared(stub: str) -> set[str]:
    """The names that a stub gives away with ``from ... import x as x``."""
    tree = ast.parse((STUBS / stub).read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname for node in imports for alias in node.names if alias.asname}


def test_the_stub_lists_what_the_package_has() -> None:
    assert declared("_public.pyi") == set(typedpallas.__all__)


@pytest.mark.parametrize("name", typedpallas.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(typedpallas, name) is getattr(typedpallas, name)


def test_the_version_is_the_package_s() -> None:
    assert typedpallas.__version__ == importlib.metadata.version("typedpallas")


@pytest.mark.parametrize("marker", dtypes.MARKERS, ids=lambda marker: marker.__name__)
def test_an_element_type_is_jax_s(marker: type[DType]) -> None:
    dtype = jnp.dtype(marker.jax_name)
    assert dtype == getattr(jnp, marker.jax_name)
    family = {dtypes.Float: jnp.floating, dtypes.Signed: jnp.signedinteger, dtypes.Unsigned: jnp.unsignedinteger}
    for ours, theirs in family.items():
        assert issubclass(marker, ours) == jnp.issubdtype(dtype, theirs)
    assert marker.bits == (8 if marker is dtypes.bool_ else jax.dtypes.itemsize_bits(dtype))
    assert dtypes.from_name(marker.__name__) is dtypes.from_jax_name(marker.jax_name) is marker
    assert dtypes.short(marker.jax_name) == marker.__name__


def test_every_number_type_of_jax_has_a_marker() -> None:
    """Complex numbers aside, which Pallas has not, and single bits, which no backend stores."""
    for name in dir(jnp):
        if not name.startswith(("int", "uint", "float", "bfloat")) or name.endswith(("int1", "_", "uint")):
            continue
        if isinstance(getattr(getattr(jnp, name), "dtype", None), jnp.dtype):
            assert dtypes.from_jax_name(name) is not None, name


def test_markers_are_complete() -> None:
    families = {DType, dtypes.Number, dtypes.Float, dtypes.Integer, dtypes.Signed, dtypes.Unsigned}
    classes = {value for value in vars(dtypes).values() if isinstance(value, type) and issubclass(value, DType)}
    assert classes - families == set(dtypes.MARKERS)
    assert dtypes.from_name("f31") is None and dtypes.from_jax_name("float31") is None
    assert dtypes.short("key<fry>") == "key<fry>"


def test_spaces_say_what_their_capabilities_say() -> None:
    for module in (spaces, tpu, gpu):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, spaces.MemorySpace):
                loads = "scalar" if issubclass(value, spaces.Scalars) else "none"
                assert value.loads == ("vector" if issubclass(value, spaces.VectorLoads) else loads)
                assert value.stores == ("vector" if issubclass(value, spaces.VectorStores) else loads)
    assert spaces.name(tpu.VMEM) == "tpu.VMEM" and spaces.name(gpu.SMEM) == "gpu.SMEM"
    assert spaces.name(spaces.BLOCK) == "tp.BLOCK"
