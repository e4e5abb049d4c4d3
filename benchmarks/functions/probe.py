"""Writes a module that reveals the type of many expressions, reads mypy's answers, and asks JAX for the truth."""

import ast
import functools
import inspect
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

SIZES = {"M": 24, "N": 40, "K": 56, "B": 6}
"""Elements of each dim when JAX is asked; M is a multiple of 8, no two products agree by accident."""

ARRAYS = {
    "x": ("f32", "M N"),
    "y": ("f32", "M N"),
    "b": ("bf16", "M N"),
    "w": ("f32", "N K"),
    "row": ("f32", "N"),
    "col": ("f32", "M 1"),
    "n": ("i32", "M N"),
    "flag": ("bool_", "M N"),
    "sq": ("f32", "N N"),
    "q": ("f32", "B M N"),
    "k": ("f32", "B K N"),
    "s": ("f32", ""),
}
JAX_NAMES = {"f32": "float32", "bf16": "bfloat16", "i32": "int32", "bool_": "bool"}

_HEADER = """
from typing import Any, Literal as L, reveal_type
import jax
import jax.numpy as jnp
from jax import lax
from typedpallas import Block, Dim, Multiple, bf16, bool_, f32, i32

def probe[M: Multiple[L[8]], N: Dim, K: Dim, B: Dim](
{parameters}
) -> None:
    {body}
"""

_CALLS = (
    "(x)", "(n)", "(flag)", "(x, y)", "(x, w)", "(n, n)", "(x, axis=0)", "(x, 1)", "(x, 2.0)", "(x, (1, 0))", "(row)",
    "(x, -1, 0)", "(flag, x, y)", "([x, y])", "([x, y], axis=1)", "(x, x.shape)", "(x.shape)", "(x, (1, 8))", "(sq)",
    "(x.shape, jnp.float32)", "(jnp.bfloat16, x.shape, 1)", "(x, jnp.bfloat16)", "(x.shape, 0.5)", "(8)", "(n, 8)",
    "(q, k, (((2,), (2,)), ((0,), (0,))))",
)  # fmt: skip
_CALLS_EACH = 2

OWN_CALLS = {
    "jnp.argwhere": ("(flag, size=8)",),
    "jnp.bincount": ("(n[0], length=8)",),
    "jnp.choose": ("(n, [x, y], mode='clip')",),
    "jnp.compress": ("(flag[0], x, axis=1, size=8)",),
    "jnp.convolve": ("(row, row)",),
    "jnp.correlate": ("(row, row)",),
    "jnp.cross": ("(x[:, 0:3], y[:, 0:3])",),
    "jnp.digitize": ("(x, row)",),
    "jnp.extract": ("(flag, x, size=8)",),
    "jnp.flatnonzero": ("(flag, size=8)",),
    "jnp.interp": ("(x, row, row)",),
    "jnp.kaiser": ("(8, 2.0)",),
    "jnp.nonzero": ("(flag, size=8)",),
    "jnp.polymul": ("(row, row)",),
    "jnp.put_along_axis": ("(x, n, 0.0, axis=1, inplace=False)",),
    "jnp.searchsorted": ("(row, x)",),
    "jnp.unique": ("(n, size=8)",),
    "lax.argmax": ("(x, 1, jnp.int32)",),
    "lax.argmin": ("(x, 1, jnp.int32)",),
    "lax.associative_scan": ("(jnp.add, x)",),
    "lax.betainc": ("(x, y, x)",),
    "lax.broadcast_in_dim": ("(row, (M_, N_), (1,))",),
    "lax.clamp": ("(0.0, x, 1.0)",),
    "lax.concatenate": ("([x, y], 0)",),
    "lax.cond": ("(flag[0, 0], lambda v: v, lambda v: v, x)",),
    "lax.dynamic_slice": ("(x, (0, 0), (8, 8))",),
    "lax.dynamic_update_index_in_dim": ("(x, row, 0, 0)",),
    "lax.dynamic_update_slice": ("(x, y, (0, 0))",),
    "lax.dynamic_update_slice_in_dim": ("(x, y, 0, 0)",),
    "lax.fori_loop": ("(0, 4, lambda i, v: v, x)",),
    "lax.iota": ("(jnp.float32, 8)",),
    "lax.map": ("(lambda v: v, x)",),
    "lax.pad": ("(x, 0.0, ((0, 0, 0), (0, 8, 0)))",),
    "lax.reduce": ("(x, 0.0, lax.add, (0,))",),
    "lax.reduce_and": ("(flag, (0,))",),
    "lax.reduce_or": ("(flag, (0,))",),
    "lax.reduce_precision": ("(x, 8, 7)",),
    "lax.reduce_window": ("(x, 0.0, lax.add, (1, 2), (1, 1), 'VALID')",),
    "lax.reduce_xor": ("(n, (0,))",),
    "lax.rng_uniform": ("(0.0, 1.0, (8, 8))",),
    "lax.scan": ("(lambda c, v: (c, v), row, x)",),
    "lax.slice": ("(x, (0, 0), (8, 8))",),
    "lax.slice_in_dim": ("(x, 0, 8)",),
    "lax.split": ("(x, (8, M_ - 8))",),
    "lax.squeeze": ("(col, (1,))",),
    "lax.switch": ("(n[0, 0], [lambda v: v, lambda v: v], x)",),
    "lax.while_loop": ("(lambda v: v[0, 0] > 0, lambda v: v, x)",),
}
"""Calls of functions that none of the general calls fits."""

WRITTEN = """
x + y; x - 1; 2.0 * x; x / row; x // y; x % 2.0; x ** 2; n << 1; n & n; flag | flag; ~flag; -x; abs(x); x @ w
x @ w @ w.T; x > y; x == 0.0; n != 1; x + b; b * 2; b * 2.0; n + 1.5; n / 2; x + col; col * row; (x > 0) * x; s * x
s + s; divmod(n, 3); x.T; q.mT; x.real; x.shape; x.ndim; x.astype(jnp.bfloat16); x.astype("bfloat16")
x.astype(b.dtype); x.astype(jnp.int32); x.sum(); x.sum(axis=0); x.sum(axis=(0, 1), keepdims=True); x.max(axis=-1)
x.mean(0); n.sum(); x.argmax(axis=1); x.min(); x.reshape(-1); x.reshape(N_ * M_); x.reshape((M_, N_))
x.reshape(M_, N_, 1); x.reshape(M_ // 8, 8, N_); x.reshape(1, -1); x.ravel(); x.flatten(); x.transpose()
q.transpose(2, 0, 1); q.swapaxes(0, 1); col.squeeze(1); x.repeat(2, axis=0); x.copy(); x[0]; x[0, 1]; x[:, 0]
x[:, None]; x[None]; x[..., 0]; x[:]; x[0:1]; x[:, :8]; q[0, :, 1:2]; x[-1]; x[:M_ // 2]; x[::2]; jnp.zeros((M_, 8))
jnp.ones(x.shape, x.dtype); jnp.full((8, 128), 1.0); jnp.full_like(x, 0); jnp.arange(8); jnp.eye(8)
jnp.zeros_like(b); jnp.empty((M_,), jnp.int32); jnp.arange(M_); jnp.arange(0, 16, 2); jnp.tri(8)
jnp.linspace(0.0, 1.0, 5); jnp.dot(x, w); jnp.dot(b, b.T, preferred_element_type=jnp.float32)
jnp.einsum("mn,nk->mk", x, w); jnp.matmul(q, w); jnp.einsum("bmn,bkn->bmk", q, k); jnp.tensordot(x, w, axes=1)
jnp.inner(x, y); jnp.outer(row, row); jnp.vdot(row, row)
lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32); lax.dot(b, b.T)
lax.dot_general(x, w, dimension_numbers=(((1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)
jnp.where(x > 0, x, 0.0); jnp.where(flag, b, 0); jnp.maximum(x, 0.0); jnp.clip(x, 0, 1); jnp.clip(b, 0.0, 1.0)
jnp.add(x, 1); jnp.concatenate([x, y], axis=1); jnp.concatenate((x, y)); jnp.stack([x, y])
jnp.stack([x, y], axis=-1); jnp.hstack((x, y)); jnp.split(q, 1, axis=0); jnp.split(x, 2, axis=0)
jnp.broadcast_to(row, (M_, N_)); jnp.broadcast_to(col, x.shape); jnp.expand_dims(x, 1); jnp.squeeze(col, 1)
jnp.pad(x, ((0, 0), (0, 8))); jnp.roll(x, 1, axis=1); jnp.flip(x, 0); jnp.tile(x, (2, 1)); jnp.repeat(x, 2, axis=1)
jnp.cumsum(x, axis=1); jnp.sort(x, axis=-1); jnp.argsort(x); jnp.diff(x); jnp.take(x, n[0], axis=1)
jnp.take_along_axis(x, n, axis=1); jnp.sum(x, axis=1, keepdims=True); jnp.var(x, axis=0)
jnp.max(x, axis=1, initial=0.0); jnp.any(flag, axis=0); jnp.all(flag); jnp.argmax(x, axis=1)
jnp.linalg.norm(x, axis=1); lax.broadcasted_iota(jnp.int32, x.shape, 1); lax.broadcasted_iota(jnp.int32, (M_, 1), 0)
lax.iota(jnp.float32, 8); lax.broadcast_in_dim(row, (M_, N_), (1,)); lax.convert_element_type(x, jnp.bfloat16)
lax.select(flag, x, y); lax.rsqrt(x); lax.slice_in_dim(x, 0, 8, axis=0); lax.dynamic_slice_in_dim(x, 1, 4, 1)
lax.reduce_max(x, (0,)); lax.squeeze(col, (1,)); lax.reshape(x, (N_, M_)); lax.transpose(x, (1, 0))
lax.concatenate([x, y], 0); lax.pad(x, 0.0, ((0, 0, 0), (0, 8, 0))); lax.stop_gradient(x); lax.top_k(row, 4)
lax.cumsum(x, axis=1); lax.expand_dims(x, (0,)); lax.bitcast_convert_type(x, jnp.int32); jax.nn.relu(x)
jax.nn.softmax(x, axis=-1); jax.nn.gelu(b); jax.nn.silu(x); jax.nn.sigmoid(x); jax.nn.log_softmax(x)
jax.nn.one_hot(n[0], 8); jax.nn.logsumexp(x, axis=1); jax.nn.softmax(x, where=flag, axis=1); jax.nn.standardize(x)
jax.scipy.special.logsumexp(x, axis=1); jax.scipy.special.erf(x); jnp.float32(s); jnp.asarray(x)
jnp.array([1.0, 2.0])
"""
"""Expressions as people write them, one after each ``;``."""


def expressions() -> list[str]:
    """The written ones, and every public function of three modules in every way of calling it that JAX takes."""
    written = [part.strip() for line in WRITTEN.splitlines() for part in line.split(";") if part.strip()]
    return list(dict.fromkeys([*written, *_enumerated()]))


def _enumerated() -> Iterator[str]:
    for name in functions():
        yield from calls(name)


def functions() -> Iterator[str]:
    """Every public function of the three modules, as code writes it."""
    for prefix, module in (("jnp", jnp), ("lax", lax), ("jax.nn", jax.nn)):
        for name in sorted(vars(module)):
            function = getattr(module, name)
            if not name.startswith("_") and callable(function) and not inspect.isclass(function):
                yield f"{prefix}.{name}"


@functools.cache
def calls(name: str) -> tuple[str, ...]:
    """The first few calls of a function that JAX takes, of those that fit it best."""
    tried = (*OWN_CALLS.get(name, ()), *_CALLS)
    accepted = (f"{name}{call}" for call in tried if truth(f"{name}{call}") is not None)
    return tuple(itertools.islice(accepted, _CALLS_EACH))


def evaluated(expression: str, sizes: Mapping[str, Any]) -> tuple[Any, bool]:
    """What JAX's abstract evaluation gives, with these sizes for the dims, and whether every part of it is an array.

    Raises:
        Exception: whatever JAX raises.
    """
    structs = {
        name: jax.ShapeDtypeStruct(tuple(sizes[d] if d in sizes else int(d) for d in dims.split()), JAX_NAMES[dtype])
        for name, (dtype, dims) in ARRAYS.items()
    }
    names = {"jnp": jnp, "lax": lax, "jax": jax, **{f"{name}_": size for name, size in sizes.items()}}
    arrays: list[bool] = []

    def run(given: dict[str, jax.Array]) -> Any:
        result = eval(expression, {**names, **given})
        arrays.append(all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(result)))
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax.eval_shape(run, structs), arrays[0]


@functools.cache
def truth(expression: str) -> list[tuple[tuple[int, ...], str, bool]] | None:
    """What JAX gives with numbers for dims: shape, element type and weakness of each result; none if refused."""
    try:
        given, _ = evaluated(expression, SIZES)
    except Exception:
        return None
    if not all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(given)):
        return None
    return [(leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in jax.tree.leaves(given)]


def gives_arrays(expression: str) -> bool:
    """Whether JAX takes it and gives arrays, and not numbers, text or types."""
    return bool(truth(expression)) and evaluated(expression, SIZES)[1]


def module(listed: list[str]) -> tuple[str, dict[int, str]]:
    """The text of the module, and which expression is revealed on which line."""
    parameters = [
        f"    {name}: Block[{', '.join([dtype, *(d if d in SIZES else f'L[{d}]' for d in dims.split())])}],"
        for name, (dtype, dims) in ARRAYS.items()
    ]
    start = ["B_, M_, N_ = q.shape", "K_ = w.shape[1]"]
    body = "\n    ".join([*start, *(f"reveal_type({expression})" for expression in listed)])
    text = _HEADER.format(parameters="\n".join(parameters), body=body)
    where = {
        number: line.strip()[len("reveal_type(") : -1]
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip().startswith("reveal_type(")
    }
    return text, where


def revealed(message: str) -> list[tuple[tuple[int | None, ...] | None, str | None]] | None:
    """The blocks in mypy's note of a revealed type as (shape under `SIZES`, element type); none if it has none."""
    text = re.search(r'Revealed type is "(.*)"', message)
    assert text is not None, message
    name = re.sub(r"\btypedpallas\.(_static|dtypes)\.", "", text[1]).replace("*tuple[Any, ...]", "Ellipsis")
    tree = ast.parse(name.rstrip("?"), mode="eval").body
    return [_block(node) for node in ast.walk(tree) if _head(node) == "Block"] or None


def _head(node: ast.AST) -> str:
    return node.value.id if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) else ""


def _block(node: ast.AST) -> tuple[tuple[int | None, ...] | None, str | None]:
    assert isinstance(node, ast.Subscript)
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    dtype, *dims = arguments
    name = dtype.id if isinstance(dtype, ast.Name) else ""
    shape = None if dims and isinstance(dims[0], ast.Name) and dims[0].id == "Ellipsis" else tuple(map(_size, dims))
    return shape, JAX_NAMES.get(name, None if name == "Any" else name)


def _size(node: ast.expr) -> int | None:
    if isinstance(node, ast.Name):
        return SIZES.get(node.id)
    if _head(node) == "Literal":
        assert isinstance(node, ast.Subscript)
        value = ast.literal_eval(node.slice)
        return int(value)
    assert isinstance(node, ast.Subscript)
    arithmetic = {"Mul": int.__mul__, "Add": int.__add__, "FloorDiv": int.__floordiv__}
    assert isinstance(node.slice, ast.Tuple)
    left, right = (_size(part) for part in node.slice.elts)
    return None if left is None or right is None else arithmetic[_head(node)](left, right)
