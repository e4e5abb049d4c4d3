"""Variables that are assigned twice, where mypy does not follow that.

Without ``allow_redefinition`` mypy keeps the type of the first assignment, and ``v = v.T`` would be an error about a
program that is right. There the first value is an array of unknown shape.
"""

from typing import Any

from mypy.types import Type

from typedpallas_mypy import answer, scope
from typedpallas_mypy.bindings import rebound
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hook


def settled(hook: Hook) -> Hook:
    """``hook``, with its shapes taken back where the variable that they go to may get others."""

    def run(context: Any) -> Type:
        result: Type = hook(context)
        api = context.api
        if api.options.allow_redefinition or id(context.context) not in rebound(api.tree):
            return result
        if not scope.speaks(result):
            return result
        return answer.unknown(Types(api), result, anew=True)

    return run
