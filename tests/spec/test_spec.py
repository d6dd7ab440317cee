"""The definition as a whole: what it may import, that its examples are true, that NumPy is not needed."""

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from intnet import spec
from tests.support import cases

ALLOWED = {
    "__future__", "collections", "copy", "dataclasses", "decimal", "fnmatch", "fractions", "functools",
    "gzip", "hashlib", "importlib", "itertools", "math", "operator", "pathlib", "struct", "types", "typing",
}  # fmt: skip
COMMAND = {"argparse", "json", "os", "sys", "time"}  # and of `python -m intnet.spec` alone


@pytest.mark.slow
def test_the_definition_imports_nothing_but_the_standard_library():
    for path in Path(spec.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                allowed = ALLOWED | COMMAND if path.name == "__main__.py" else ALLOWED
                assert name.startswith("intnet.spec") or name.split(".")[0] in allowed, (path.name, name)


MODULES = [module.name for module in pkgutil.walk_packages(spec.__path__, "intnet.spec.")]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_are_many():
    """A finder that finds nothing would pass."""
    found = sum(
        len(test.examples)
        for name in MODULES
        if not name.endswith("__main__")
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert found > 30


@pytest.mark.slow
def test_numpy_is_not_needed():
    code = f"import sys; sys.modules['numpy'] = None\nimport {', '.join(MODULES)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _public(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("path", sorted(Path(spec.__file__).parent.rglob("*.py")), ids=lambda p: p.name)
def test_everything_public_says_what_it_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert len(ast.get_docstring(tree) or "") > 60
    for node in _public(tree):
        assert ast.get_docstring(node), f"{path.name}: {node.name}"


def test_cases_are_inside_their_words_and_around_their_points():
    for bits in cases.WIDTHS:
        lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        got = cases.corners(bits)
        assert (got[0], got[-1]) == (lo, hi) and {0, 1, -1, 5, 8, 24, -8} <= set(got)
        assert all(lo <= v <= hi for v in cases.random_magnitudes(3, 100, bits))
    assert cases.sqrt2_neighbours(19) == (741455, 741456)
    assert cases.ties(3, 1) == [-5, -4, -3, 3, 4, 5]
