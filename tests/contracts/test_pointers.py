"""No compiled loop reads memory that Numba has freed: what it views by a pointer alone, it keeps."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import softmargin
from softmargin.matrices.rows import as_rows
from softmargin.solvers.common.hinge_newton import fill_squares

ALLOCATED = ("np.empty", "np.zeros", "np.ones", "np.full", "zeros(")
ROOT = Path(inspect.getfile(softmargin)).parent


def allocated(function):
    """Return the names of the arrays that a function makes."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            are_both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            are_both = are_both and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
            for goal, given in zip(target.elts, value.elts, strict=True) if are_both else [(target, value)]:
                names = goal.elts if isinstance(goal, ast.Tuple) else [goal]
                if ast.unparse(given).startswith(ALLOCATED):
                    found |= {name.id for name in names if isinstance(name, ast.Name)}
    return found


def reads(tree, name):
    """Count the reads of a name."""
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def unkept(function):
    """Return the arrays that a function makes and then reads through a pointer alone."""
    views = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("pointer")]
    through = {name: sum(reads(view, name) for view in views) for name in allocated(function)}
    return sorted(name for name, count in through.items() if 0 < count == reads(function, name))


@pytest.mark.parametrize("path", [str(path.relative_to(ROOT)) for path in sorted(ROOT.rglob("*.py"))])
def test_arrays_behind_pointers_are_kept(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not {function.name: unkept(function) for function in functions if unkept(function)}


def test_an_array_that_is_freed_too_early_is_seen():
    loop = "def loop():\n    row, more = np.empty(3), np.empty(3)\n    both = pointer(row), pointer(more)\n    keep({})"
    assert unkept(ast.parse(loop.format("more")).body[0]) == ["row"]
    assert unkept(ast.parse(loop.format("row, more")).body[0]) == []


def test_squares_of_many_rows_are_those_of_numpy():
    """Arrays of megabytes are unmapped where they are freed."""
    rng = np.random.default_rng(0)
    X, prices, H = rng.standard_normal((60_000, 9)), rng.random(60_000), np.empty((9, 9))
    fill_squares(as_rows(X), np.zeros(9), prices, H)
    np.testing.assert_allclose(np.triu(H), np.triu(X.T @ (prices[:, None] * X)), rtol=1e-10, atol=1e-7)
