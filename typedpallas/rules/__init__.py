"""The rule book: every rule, found by its file, and the one function that judges an event."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator

from typedpallas.events import Context, Event
from typedpallas.rules.base import Example, Finding, Level, Rule

__all__ = ["Example", "Finding", "Level", "Rule", "all_rules", "by_slug", "judge", "judging"]


@functools.cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its slug, in the slugs' order. A rule's file is its slug with underscores."""
    found: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "base" or module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == loaded.__name__:
                found[value.slug] = value()
    return dict(sorted(found.items()))


def by_slug(slug: str) -> Rule:
    """The rule of this name.

    Raises:
        KeyError: there is none; the message names the nearest.
    """
    rules = all_rules()
    if slug in rules:
        return rules[slug]
    import difflib

    near = difflib.get_close_matches(slug, rules, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    raise KeyError(f"no rule is called `{slug}`{hint}")


@functools.cache
def _by_event() -> dict[type, tuple[Rule, ...]]:
    kinds = {kind for rule in all_rules().values() for kind in rule.judges}
    return {kind: tuple(rule for rule in all_rules().values() if kind in rule.judges) for kind in kinds}


def judging(event: Event) -> tuple[Rule, ...]:
    """The rules that look at this kind of event."""
    return _by_event().get(type(event), ())


def judge(event: Event, context: Context) -> Iterator[Finding]:
    """Everything that the rule book has to say about an event."""
    for rule in judging(event):
        yield from rule.judge(event, context)
