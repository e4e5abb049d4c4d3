"""mypy's output read back into diagnostics."""

from typedpallas.cli import mypying

OUTPUT = """\
k.py:15:16:15:36: error: cannot load from `t`: expected a copy, found a load  [load-from-hbm]
k.py:15:16:15:36: note: a fact
k.py:15:16:15:36: note: help: copy it
other.py:3:1:4:9: error: Name "x" is not defined  [name-defined]
k.py:9:1:9:2: note: stands alone
mypy: some remark
"""


def test_errors_carry_their_notes() -> None:
    first, second = mypying.parsed(OUTPUT)
    item = first.diagnostic
    assert (item.file, item.line, item.column, first.end_column) == ("k.py", 15, 16, 37)
    assert (item.rule, item.message) == ("load-from-hbm", "cannot load from `t`: expected a copy, found a load")
    assert (item.notes, item.help, item.level) == (("a fact",), "copy it", "types")
    assert second.diagnostic.notes == ()
    assert second.diagnostic.rule == "name-defined"
