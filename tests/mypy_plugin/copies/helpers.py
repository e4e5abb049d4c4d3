"""What another module does with a copy."""

from typing import Any


def drain(copy: Any) -> None:
    copy.wait()


def drain_all(copies: list[Any]) -> None:
    for copy in copies:
        copy.wait()
