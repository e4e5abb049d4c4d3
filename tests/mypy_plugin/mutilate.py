"""Kernels with something torn out, put in or swapped, as code is while somebody writes it. All of it still parses."""

import ast
import random
from collections.abc import Callable, Iterator

_ANNOTATIONS = (
    *("int", "'Unknown'", "None", "tp.In", "tp.In[tp.f32]", "tp.In[tp.f32, int, 3]", "tp.In[L['x'], L[-1]]"),
    *("tp.Out[Any, Any, *tuple[Any, ...]]", "tp.Block", "tp.Block[tp.Float, L[-1]]", "tp.Mul", "tp.f32", "tp.Dim"),
    *("tp.Ref[VMEM, tp.f32, tp.Mul[L[2]]]", "tp.In[VMEM, tp.f32, tp.FloorDiv[L[8], L[0]]]", "tp.Multiple[L[0]]"),
    *("tp.Scratch[SMEM, tp.i32, L[True]]", "tp.In[VMEM, tp.f32, L[8]] | None", "tp.In[VMEM, tp.f32, L[8] | L[9]]"),
)
_EXPRESSIONS = (
    *("...", "None", "-1", "0", "'x'", "lambda: 0", "()", "[*x]", "unknown", "x[...]", "10**40", "(yield)", "{}"),
    *("[i for i in range(3)]", "x.at[0]", "x[0, ..., None]", "pl.ds(0, 8)", "pl.ds(x, -1)", "slice(None)", "jnp.dot"),
    *("(a := 3)", "x[...] @ x[...]", "lambda i, *j, **k: (i, j)", "x if x else None", "[[]]", "(1, 2, 3, 4, 5)"),
    *(
        "pl.BlockSpec()",
        "pl.program_id(-1)",
        "x.shape",
        "x.shape[7]",
        "1 // 0",
        "8 % 0",
        "1 << 70",
        "jnp.zeros((0,))",
    ),
)
_STATEMENTS = (
    *("pass", "return", "return x", "del x", "x = 3", "x: int", "def x(): ...", "import x", "x[...] = 0"),
    *("x[...] += x", "x, *y = x", "for i in x: x[i] = i", "with x as y: pass", "try:\n pass\nexcept x:\n pass"),
    "match x:\n case [a, *b]: pass\n case {'a': c, **d}: pass",
)
_NUMBERS = (0, 1, 3, 7, -1, 128, 1000, 10**30)


def _parsed(text: str) -> ast.expr:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return call.args[0]


def _annotation(tree: ast.AST, pick: random.Random) -> None:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.annotation]
    if found:
        pick.choice(found).annotation = _parsed(pick.choice(_ANNOTATIONS))


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every place of an expression that is read: its owner, the field, the index in it."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for i, item in items:
                if isinstance(item, ast.expr) and isinstance(getattr(item, "ctx", ast.Load()), ast.Load):
                    yield node, name, i


def _expression(tree: ast.AST, pick: random.Random) -> None:
    node, name, i = pick.choice(list(_places(tree)))
    if i is None:
        setattr(node, name, _parsed(pick.choice(_EXPRESSIONS)))
    else:
        getattr(node, name)[i] = _parsed(pick.choice(_EXPRESSIONS))


def _arguments(tree: ast.AST, pick: random.Random) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    if calls:
        call = pick.choice(calls)
        what = pick.choice(["swap", "drop", "add"])
        if what == "swap":
            pick.shuffle(call.args)
        elif what == "drop":
            call.args.pop(pick.randrange(len(call.args)))
        else:
            call.args.append(_parsed(pick.choice(_EXPRESSIONS)))


def _keyword(tree: ast.AST, pick: random.Random) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords]
    if calls:
        keywords = pick.choice(calls).keywords
        at = pick.randrange(len(keywords))
        if pick.random() < 0.5:
            keywords.pop(at)
        else:
            keywords[at].arg = pick.choice([None, "unknown", "grid", "in_specs"])


def _statement(tree: ast.AST, pick: random.Random) -> None:
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list) and body]
    body = pick.choice(bodies)
    at = pick.randrange(len(body))
    if pick.random() < 0.5 and len(body) > 1:
        body.pop(at)
    else:
        body.insert(at, ast.parse(pick.choice(_STATEMENTS)).body[0])


def _constant(tree: ast.AST, pick: random.Random) -> None:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) in (int, str)]
    if found:
        constant = pick.choice(found)
        if isinstance(constant.value, str):
            at = pick.randrange(len(constant.value) + 1)
            constant.value = constant.value[:at] + pick.choice([*"()ij ->,1", ""]) + constant.value[at + 1 :]
        else:
            constant.value = pick.choice(_NUMBERS)


_WAYS: tuple[Callable[[ast.AST, random.Random], None], ...] = (
    *(_annotation, _expression, _expression, _arguments, _keyword, _statement, _constant),
)


def mutilated(sources: list[str], count: int, seed: int) -> Iterator[str]:
    """``count`` modules, each one of the sources with one to three things broken."""
    pick = random.Random(seed)
    while count:
        tree = ast.parse(pick.choice(sources))
        for _ in range(pick.randint(1, 3)):
            pick.choice(_WAYS)(tree, pick)
        try:
            text = ast.unparse(ast.fix_missing_locations(tree))
            compile(text, "mutilated", "exec")
        except (SyntaxError, ValueError, AttributeError):
            continue  # no program at all: mypy says so and stops before any plugin
        yield text
        count -= 1
