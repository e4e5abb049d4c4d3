"""What a TPU kernel's values may take of VMEM beside its buffers: those that no register holds.

Operations on elements are fused, and need no room, however large the block. What moves elements about, or is used
more than once and is too large for the registers, is written out with the values around it. Measured against libtpu
0.0.48.1 over kernels of a dozen packages on v2 to 7x.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal

from typedpallas import dtypes
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices
from typedpallas.tracing.ledgers import crossing
from typedpallas.tracing.walk import KernelCall

_TURNING = frozenset(
    {
        *("concatenate", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "dynamic_slice", "gather"),
        *("reshape", "rev", "roll", "sort", "split", "stack", "unstack", "bitcast", "unpack_elementwise"),
        *("pack_elementwise", "argmax", "argmin"),
    }
)
"""Operations after which an element is not where it was. Sums, spread columns and turned operands of a product are
none of them: what they need stays below the product's result, wherever it was measured."""
_ROWS, _LANES, _WORD_BITS, _WIDENED = 8, 128, 32, 8
_TILE = 4096
REGISTERS = 64 * _TILE
"""Bytes of all vector registers."""
_BESIDE = 1 << 16
"""Bytes that the compiler may hold beside what waits."""
_MOVED = 1 << 18
"""The same where elements are moved."""
_SOME, _MANY = 16, 64
"""Barriers of a body that few kernels have, and that only bodies with written-out loops have."""
_ACCESSES = ("get", "swap", "addupdate", "masked_load", "masked_swap")


def alive(jaxpr: Any) -> int:
    """Bytes that all values may take that have to wait at once; none where no large one does.

    Values that are used once are fused with what uses them. The more reductions, products and moves a body has, the
    more freely the compiler orders them: then what its own order keeps alive tells nothing, and all values count.
    """
    turned = _turns(jaxpr)
    if not turned and not _shares(jaxpr, REGISTERS // 4):
        return _BESIDE if _chains(jaxpr) > 1 else 0
    waiting, barriers = crossing.most(jaxpr, bytes_of), crossing.barriers(jaxpr)
    if barriers > _MANY:
        return _most(jaxpr) * 2 + _MOVED
    if barriers > _SOME:
        return min(waiting, _most(jaxpr)) * 2 + _MOVED
    if turned:
        return min(waiting * 5 // 4 + _MOVED, _most(jaxpr) * 2)
    if crossing.stands_up(jaxpr):
        return _most(jaxpr) + _BESIDE
    full = waiting >= REGISTERS or _shares(jaxpr, REGISTERS)
    return waiting * 5 // 4 + _BESIDE if full else waiting * 3 // 4


def _chains(jaxpr: Any) -> int:
    """How many operations on more than the registers hold: the compiler may put a little aside between them."""
    own = (
        eqn.primitive.name not in _ACCESSES and any(bytes_of(var) >= REGISTERS for var in eqn.outvars)
        for eqn in jaxpr.eqns
    )
    return sum(own) + sum(_chains(inner) for eqn in jaxpr.eqns for inner in jaxapi.inner_jaxprs(eqn))


def beside_product(size: int) -> int:
    """Bytes that a product's result of ``size`` bytes may take with what stands beside it."""
    return size * 5 // 4 + _BESIDE if size >= REGISTERS else size


def widened(jaxpr: Any) -> int:
    """Bytes that v2 and v3 may take for 16-bit values that are computed with: the two largest, in 32 bits each.

    Measured on v3 over sums, products, selects and exponentials of bf16 and f32 blocks: two operands of 16 bits cost
    up to twice their size each, one costs it once, copies and values of 32 bits cost nothing.
    """
    found = {
        var: 2 * bytes_of(var)
        for eqn in jaxpr.eqns
        if eqn.primitive.name not in (*_ACCESSES, "dot_general")
        for var in eqn.invars
        if not jaxapi.is_literal(var) and not jaxapi.is_ref(var.aval) and _bits(var.aval) == _WORD_BITS // 2
    }
    inner = [widened(opened) for eqn in jaxpr.eqns for opened in jaxapi.inner_jaxprs(eqn)]
    here = sum(sorted(found.values())[-2:])
    return max(here and here + _TILE, *inner, 0)  # the compiler has a tile of its own beside them


def _shares(jaxpr: Any, size: int) -> bool:
    """Whether a value of at least ``size`` bytes is used more than once, or two products give such values.

    The scores of attention are the first, scores and the gradient of weights the second: on v3 and v4 both take up to
    1.7 times one product's result.
    """
    counts: dict[Any, int] = {}
    products = 0
    for eqn in jaxpr.eqns:
        products += eqn.primitive.name == "dot_general" and bytes_of(eqn.outvars[0]) >= size
        for atom in {atom for atom in eqn.invars if not jaxapi.is_literal(atom)}:
            counts[atom] = counts.get(atom, 0) + 1
        if any(_shares(inner, size) for inner in jaxapi.inner_jaxprs(eqn)):
            return True
    return products > 1 or any(count > 1 and bytes_of(var) >= size for var, count in counts.items())


def _turns(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _TURNING and any(bytes_of(var) > _TILE for var in (*eqn.invars, *eqn.outvars)):
            return True
        if eqn.primitive.name in _ACCESSES and _is_part(eqn):
            return True
        if any(_turns(inner) for inner in jaxapi.inner_jaxprs(eqn)):
            return True
    return False


def _is_part(eqn: Any) -> bool:
    """Whether an access takes rows or lanes that do not start and end with tiles: those are moved."""
    ref, value = jaxapi.accessed(eqn)
    taken = jaxapi.shape_of((eqn.outvars[0] if value is None else value).aval) or ()
    shape = jaxapi.shape_of(ref.aval) or ()
    single = value is None and math.prod(extent or 0 for extent in taken[:-1]) <= 1
    if not taken or single or tuple(taken[-2:]) == tuple(shape[-2:]):
        return False  # to load a single row costs next to nothing
    index = grid_indices.rectangle(eqn)
    if index is None or len(index) != len(shape) or len(shape) < 2:
        return True
    tile = (_ROWS * _WORD_BITS // max(_bits(ref.aval), 1), _LANES)
    parts = zip(index[-2:], shape[-2:], tile, strict=True)
    return not all(
        (start, size) == (0, extent) or _on_tiles(start, size, step) for (start, size), extent, step in parts
    )


def _on_tiles(start: Any, size: int, step: int) -> bool:
    """Whether rows or lanes are whole tiles; a start that is not known is taken for one that is right."""
    return size % step == 0 and (not isinstance(start, int) or start % step == 0)


def _bits(aval: Any) -> int:
    marker = dtypes.from_jax_name(jaxapi.dtype_name(aval) or "")
    return _WORD_BITS if marker is None or jaxapi.dtype_name(aval) == "bool" else marker.bits


def _most(jaxpr: Any) -> int:
    last = {atom: step for step, eqn in enumerate(jaxpr.eqns) for atom in eqn.invars if not jaxapi.is_literal(atom)}
    last |= {atom: len(jaxpr.eqns) for atom in jaxpr.outvars if not jaxapi.is_literal(atom)}
    ends: dict[int, list[Any]] = {}
    for var, step in last.items():
        ends.setdefault(step, []).append(var)
    held = {var: bytes_of(var) for var in jaxpr.invars if var in last}
    now = most = sum(held.values())
    for step, eqn in enumerate(jaxpr.eqns):
        inside = max((_most(inner) for inner in jaxapi.inner_jaxprs(eqn)), default=0)
        for var in eqn.outvars:
            if var in last:
                held[var] = bytes_of(var)
                now += held[var]
        handed = (
            sum(held.get(atom, 0) for atom in {a for a in eqn.invars if not jaxapi.is_literal(a)}) if inside else 0
        )
        most = max(most, now, now - handed + inside)
        now -= sum(held.pop(var, 0) for var in ends.get(step, ()))
    return most


def bytes_of(var: Any) -> int:
    """A value in whole tiles; nothing for refs, scalars and what has no size.

    Elements of 8 bits and less are widened to words before they are computed with.
    """
    shape, bits = jaxapi.shape_of(var.aval), _bits(var.aval)
    bits = _WORD_BITS if bits <= _WIDENED else bits
    if jaxapi.is_ref(var.aval) or not shape or None in shape:
        return 0
    *lead, columns = (extent or 0 for extent in shape)
    rows = lead.pop() if lead else 1
    step = _ROWS * _WORD_BITS // bits
    size = -(-rows // step) * step * -(-columns // _LANES) * _LANES * bits // 8
    for extent in lead:
        size *= extent
    return size


def is_only_stored(jaxpr: Any, var: Any) -> bool:
    """Whether nothing ever looks into a buffer, so that the compiler drops it with all stores to it."""
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)}
    used |= {atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)}
    for eqn in jaxpr.eqns:
        if not any(atom is var for atom in eqn.invars):
            continue
        if eqn.primitive.name in ("swap", "masked_swap"):
            if jaxapi.accessed(eqn)[0] is not var or any(old in used for old in eqn.outvars):
                return False
            continue
        inner = list(jaxapi.inner_jaxprs(eqn))
        operands = eqn.invars[1:] if eqn.primitive.name == "cond" else eqn.invars
        if not inner or any(len(opened.invars) != len(operands) for opened in inner):
            return False
        for opened in inner:
            pairs = zip(opened.invars, operands, strict=True)
            if not all(is_only_stored(opened, own) for own, atom in pairs if atom is var):
                return False
    return True


type _Said = Literal["kept", "loaded", "stored"]
"""What uses say of a buffer: it is needed; or the first of them, all in one line, is a load, or a store."""


def is_kept(kernel: KernelCall, var: Any) -> bool:
    """Whether a scratch buffer certainly holds something from one moment to another.

    Where a store comes first, and all else follows in one line, the compiler hands the values on and needs no buffer.
    """
    return _said(kernel.jaxpr, var, {}, kernel) in ("kept", "loaded")


def _said(jaxpr: Any, var: Any, fixed: dict[Any, bool], kernel: KernelCall) -> _Said | None:
    """``fixed``: which variables are the same at each step, so that the compiler folds them."""
    found: _Said | None = None
    for eqn in jaxpr.eqns:
        if any(atom is var for atom in eqn.invars):
            here = _said_by(eqn, var, fixed, kernel)
            if here == "kept":
                return here
            found = found or here
        fixed.update(dict.fromkeys(eqn.outvars, _is_fixed(eqn, fixed, kernel)))
    return found


def _is_fixed(eqn: Any, fixed: dict[Any, bool], kernel: KernelCall) -> bool:
    if eqn.primitive.name == "program_id":
        hidden = kernel.eqn.params["grid_mapping"].vmapped_dims
        seen = [axis for axis in range(len(kernel.grid)) if axis not in hidden]
        return bool(kernel.grid[seen[eqn.params["axis"]]] == 1)
    return all(jaxapi.is_literal(atom) or fixed.get(atom, False) for atom in eqn.invars)


def _said_by(eqn: Any, var: Any, fixed: dict[Any, bool], kernel: KernelCall) -> _Said | None:
    name = eqn.primitive.name
    if name in _ACCESSES:
        return "stored" if name in ("swap", "masked_swap") else "loaded"
    if name not in ("pjit", "jit", "closed_call", "cond", "scan", "while"):
        return "kept"
    if name == "cond" and not (jaxapi.is_literal(eqn.invars[0]) or fixed.get(eqn.invars[0], False)):
        return "kept"
    said: list[_Said | None] = []
    for inner, pairs in handed(eqn):
        if pairs is None:
            return "kept"
        known = {own: jaxapi.is_literal(atom) or fixed.get(atom, False) for own, atom in pairs}
        known = {} if name in ("scan", "while") else known  # what a loop carries moves on
        said += [_said(inner, own, dict(known), kernel) for own, atom in pairs if atom is var]
    found = next((one for one in ("kept", "stored", "loaded") if one in said), None)
    return "kept" if found == "loaded" and _turns_around(eqn) else found


def _turns_around(eqn: Any) -> bool:
    """Whether an equation is a loop that stays one, so that nothing is handed on into it."""
    name = eqn.primitive.name
    return name == "while" or (name == "scan" and int(eqn.params["unroll"]) < int(eqn.params["length"]))


type Handed = list[tuple[Any, Any]] | None
"""The variables inside and the atoms that they stand for; none where that is not understood."""


def handed(eqn: Any) -> Iterator[tuple[Any, Handed]]:
    """The jaxprs inside an equation, each with what it is given."""
    name = eqn.primitive.name
    operands = {id(inner): eqn.invars[1:] if name == "cond" else eqn.invars for inner in jaxapi.inner_jaxprs(eqn)}
    if name == "while":
        tests, rest = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = eqn.invars[tests + rest :]
        operands[id(jaxapi.open_jaxpr(eqn.params["cond_jaxpr"]))] = [*eqn.invars[:tests], *carried]
        operands[id(jaxapi.open_jaxpr(eqn.params["body_jaxpr"]))] = eqn.invars[tests:]
    for inner in jaxapi.inner_jaxprs(eqn):
        inputs = inner.constvars if name == "run_scoped" else inner.invars
        given = operands[id(inner)]
        yield inner, list(zip(inputs, given, strict=True)) if len(inputs) == len(given) else None
