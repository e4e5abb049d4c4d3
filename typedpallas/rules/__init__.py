"""The rule book: every rule, found by its file, and the one function that judges an event."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence

from typedpallas.events import Context, Event
from typedpallas.rules.base import Example, Finding, Level, Rule

__all__ = ["Example", "Finding", "Level", "Rule", "all_rules", "by_slug", "follow", "index", "judge", "judging"]


@functools.cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its slug, in the slugs' order. A rule's file is its slug with underscores."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    found = (_of_file(name) for name in names if name != "base" and not name.startswith("_"))
    return dict(sorted((slug, rule) for rules in found for slug, rule in rules.items()))


@functools.cache
def _of_file(name: str) -> dict[str, Rule]:
    """The rules of one file, by slug."""
    loaded = importlib.import_module(f"{__name__}.{name}")
    classes = [value for value in vars(loaded).values() if isinstance(value, type) and issubclass(value, Rule)]
    return {value.slug: value() for value in classes if value.__module__ == loaded.__name__}


def by_slug(slug: str) -> Rule:
    """The rule of this name.

    Raises:
        KeyError: there is none; the message names the nearest.
    """
    if _INDEX is not None and any(slug in slugs for slugs in _INDEX.values()):
        return _of_file(slug.replace("-", "_"))[slug]
    rules = all_rules()
    if slug in rules:
        return rules[slug]
    import difflib

    near = difflib.get_close_matches(slug, rules, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    raise KeyError(f"no rule is called `{slug}`{hint}")


def index() -> dict[str, list[str]]:
    """Every kind of event that is judged, by its name, to the slugs of the rules that judge it."""
    found: dict[str, list[str]] = {}
    for slug, rule in all_rules().items():
        for kind in rule.judges:
            found.setdefault(kind.__name__, []).append(slug)
    return found


_INDEX: Mapping[str, Sequence[str]] | None = None


def follow(index: Mapping[str, Sequence[str]]) -> None:
    """Import a rule only once it is needed, by what `index` said of these very rules in another process."""
    global _INDEX
    _INDEX = index


_JUDGING: dict[type, tuple[Rule, ...]] = {}


def judging(event: Event) -> tuple[Rule, ...]:
    """The rules that look at this kind of event."""
    kind = type(event)
    if kind not in _JUDGING:
        named = None if _INDEX is None else map(by_slug, _INDEX.get(kind.__name__, ()))
        _JUDGING[kind] = tuple(named or (rule for rule in all_rules().values() if kind in rule.judges))
    return _JUDGING[kind]


def judge(event: Event, context: Context) -> Iterator[Finding]:
    """Everything that the rule book has to say about an event."""
    for rule in judging(event):
        yield from rule.judge(event, context)
