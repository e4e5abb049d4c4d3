"""What a rule is: one defect, judged on one kind of event, with the words and the example that explain it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from typedpallas.events import Context, Event
from typedpallas.records import record

type Level = Literal["types", "trace", "compile"]


@record(frozen=True, kw_only=True)
class Finding:
    """What a rule says about one event; the place is added by whoever made the event."""

    rule: str
    verdict: Literal["refuted", "open"]
    data: Mapping[str, str]
    """Fills the rule's message."""
    expected: str = ""
    found: str = ""
    witness: str = ""
    """Numbers that break it, ready to be checked by hand."""
    notes: tuple[str, ...] = ()
    """Facts: why the demand exists."""
    help: str = ""
    """The edit, with the nearest legal value."""
    blame: str = ""
    """The part of the construct to underline: ``value``, ``index``, ``map``, ``block[1]``; empty for all."""


@record(frozen=True, kw_only=True)
class Example:
    """A defect and its fix, each a whole module that defines ``run`` and ``ARGS`` (jax.ShapeDtypeStruct).

    The tests type-check both where ``levels`` has "types", check both at trace level on ``targets``, and hand
    both to the vendor's compiler there: the fix must compile and agree with its ``reference`` in interpret mode.
    """

    bad: str
    good: str
    targets: tuple[str, ...]
    """Where it is shown; the rule may hold on more."""
    levels: tuple[Level, ...] = ("trace",)
    compiler: Literal["refuses", "accepts", "crashes"] = "refuses"
    """What the vendor's compiler does with the defect."""
    verdict: Literal["refuted", "open"] = "refuted"
    """The most that is said about the defect."""
    runs: bool = True
    """Whether interpret mode can run the fix: not where it takes several devices."""


class Rule(ABC):
    """One defect. The class docstring is its page: what, why, on which machines, and the source of each fact."""

    slug: ClassVar[str]
    judges: ClassVar[tuple[type, ...]]
    """The kinds of event that it looks at."""
    message: ClassVar[str]
    """The headline: lower case, no final stop, code in backticks, understandable alone."""
    example: ClassVar[Example]

    @abstractmethod
    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        """The findings on one event; none if the rule has nothing against it."""

    def refuted(self, *, blame: str = "", **parts: object) -> Finding:
        """A finding that the event is wrong. Named parts of `Finding` are taken, the rest fills the message."""
        return self._finding("refuted", blame, parts)

    def open(self, *, blame: str = "", **parts: object) -> Finding:
        """A finding that the event could not be decided."""
        return self._finding("open", blame, parts)

    def _finding(self, verdict: Literal["refuted", "open"], blame: str, parts: Mapping[str, object]) -> Finding:
        own = {key: value for key, value in parts.items() if key in ("witness", "help", "notes")}
        texts = {key: str(value) for key, value in parts.items() if key not in own}
        return Finding(
            rule=self.slug,
            verdict=verdict,
            data=texts,
            expected=texts.get("expected", ""),
            found=texts.get("found", ""),
            witness=str(own.get("witness", "")),
            notes=tuple(own.get("notes", ())),  # type: ignore[arg-type]
            help=str(own.get("help", "")),
            blame=blame,
        )
