"""The report: each function typed, typed in part, or open and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jax import export

from benchmarks.functions import probe

COMMAND = "python -m benchmarks.functions"
_MARK = f"<!-- Made by `{COMMAND} --write`. -->\n\n"
_MODULES = {"jnp": "jax.numpy", "lax": "jax.lax", "jax.nn": "jax.nn"}

type State = Literal["typed", "in part", "open", "no array", "not asked"]


@dataclass(frozen=True)
class Line:
    """One function. ``calls`` are those that are open, each with the reason."""

    function: str
    state: State
    calls: tuple[tuple[str, str], ...] = ()


def lines(said: Mapping[str, str]) -> Iterator[Line]:
    """What came of every function; ``said`` has mypy's note for each expression."""
    for function in probe.functions():
        tried = probe.calls(function)
        arrays = [call for call in tried if probe.gives_arrays(call)]
        if not tried:
            yield Line(function, "not asked")
        elif not arrays:
            yield Line(function, "no array")
        else:
            left = tuple((call, reason(call)) for call in arrays if not is_known(said.get(call, "")))
            yield Line(function, "typed" if not left else "open" if len(left) == len(arrays) else "in part", left)


def is_known(note: str) -> bool:
    """Whether a revealed type says the whole shape of every array in it."""
    blocks = probe.revealed(note) if "Revealed type" in note else None
    return blocks is not None and all(shape is not None and None not in shape for shape, _ in blocks)


def reason(call: str) -> str:
    """Why no type can say what a call gives: JAX's words about names for sizes; or that it is not followed."""
    symbols = dict(zip(probe.SIZES, export.symbolic_shape("8*m, n, k, b"), strict=True))
    try:
        probe.evaluated(call, symbols)
    except Exception as error:
        return f"JAX wants numbers for the sizes: {_first_words(error)}"
    return "the plugin does not follow it"


def _first_words(error: Exception) -> str:
    """The beginning of JAX's words; its own failures are put in plain ones."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "process_primitive" in text:
        return "the function goes through the array item by item"
    if text.startswith("Symbolic dimension comparison"):  # JAX writes the sizes in an order of its own
        return "the function asks which of two sizes is larger"
    if "_DimExpr" in text:
        return "the function computes with a size as a Python number"
    text = text.split(". ")[0].split(" This error")[0].replace("|", "/")
    return text if len(text) <= 90 else text[:87] + "..."


def page(found: Sequence[Line]) -> str:
    """The report as a page."""
    parts = [_MARK, "# What mypy knows of JAX's functions\n\n", _HEAD]
    for prefix, module in _MODULES.items():
        own = [line for line in found if line.function.rpartition(".")[0] == prefix]
        parts.append(f"\n## {module}\n\n{_counts(own)}\n")
        parts += [f"\n{title}: {_names(own, state)}.\n" for state, title in _TITLES.items() if _names(own, state)]
        left = [(line, call, why) for line in own for call, why in line.calls]
        if left:
            parts.append("\n| open | why |\n|---|---|\n")
            parts += [f"| `{call}` | {why} |\n" for _, call, why in left]
    return "".join(parts)


_HEAD = f"""For every public function: calls that JAX takes, on arrays of sizes `M`, `N`, `K` that are only names, and
whether the mypy plugin knows shape and element type of what they give, for all sizes. What it knows equals what JAX
gives with numbers; `tests/mypy_plugin/test_agreement.py` holds it to that. `{COMMAND}` makes this page.

*Typed* functions keep the type in every call that was asked; *open* results are arrays of unknown shape, and
whatever is done with them passes.
"""
_TITLES: dict[State, str] = {
    "typed": "Typed",
    "in part": "Typed in some calls, open in others",
    "open": "Open",
    "no array": "Give no array (numbers, text, types)",
    "not asked": "Not asked, since they take files, callbacks, several devices or data of another kind",
}


def _counts(own: Sequence[Line]) -> str:
    counts = {state: sum(line.state == state for line in own) for state in _TITLES}
    return f"{len(own)} functions: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _names(own: Sequence[Line], state: State) -> str:
    return ", ".join(f"`{line.function.rpartition('.')[2]}`" for line in own if line.state == state)
