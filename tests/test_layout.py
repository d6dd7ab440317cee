"""The tree's own rules: imports point one way, every part has its companions, files stay small."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from intnet import methods, models
from intnet.cli.main import COMMANDS
from intnet.exact import quantize
from intnet.numbers import formats
from intnet.ops import OPS
from tests.support.docs_pages import names
from tests.support.modules import PACKAGE, ROOT, imported, imports

# The rooms, and the files beside them, in the order of imports: a room imports from those ahead of it alone.
# What each is for, its docstring's first sentence says.
ROOMS = {
    "errors": "Errors a person can act on: what was wrong, where (layer, data path, file), what to do.",
    "show": "What a person is shown: numbers as text, tables, bars of progress, pictures.",
    "plugins": "What users add from files of their own: registries, which file defined what",
    "autograd": "Reverse-mode differentiation, whole: a value, the node that made it, and one walk back.",
    "spec": "The definition: what every bit of intnet is, in plain Python integers and fractions.",
    "machine": "What the processor gives: kernels and their cache, instructions, buffers, tiles of products.",
    "numbers": "A number: rounding, formats, tensors of codes, random words, float32's order, packed bits.",
    "exact": "Exact expressions, and the one rounding of each: sums of products, quotients, roots, curves.",
    "ops": "Differentiable operations: one family a file, each registered here once.",
    "methods": "Methods: one paper a module, in its symbols.",
    "layers": "Layers: structure and parameters, with PyTorch's names.",
    "models": "Models: structure only, one family a file.",
    "datasets": "Data sets: checked files in, uint8 images with an exact exponent out",
    "training": "A run: one step after another, its state and digest, what its tape holds.",
    "runs": "A run on disk: its folder, checkpoints, records and reports, and tensors and models as files.",
    "inspect": "Looking inside a step: operands, every number's way to its bits by the definition, measures.",
    "packs": "Golden packs: folders of hex files by which hardware is judged.",
    "export": "What leaves the house: a trained network as integers, for C, ONNX and hardware",
    "papers": "The papers: their tables and figures beside ours, claims checked without long training",
    "sweeps": "Sweeps: many runs of one model on one data set, made by one command",
    "verify": "A user's own step, held to the definition: every data path of every layer",
    "cli": "The command line: `main.py` parses and reports errors, one file a command, `terminal.py` shows.",
    "__main__": "`python -m intnet`: the command line.",
}  # fmt: skip
ORDER = list(ROOMS)


def test_tests_mirror_the_rooms() -> None:
    """A folder of tests a room; beside them `support` (helpers), `oracle` and `proofs`."""
    tests = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")} - {"proofs"}
    assert tests == {room for room in ROOMS if (PACKAGE / room).is_dir()}
    helpers = [path for path in (ROOT / "tests").glob("*/*.py") if not path.name.startswith(("test_", "__"))]
    assert {path.parent.name for path in helpers} == {"support", "oracle", "proofs"}


def borrowed(tree: ast.AST) -> list[str]:
    """What a tree imports of test modules, and which of them whole."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return [name for name in found if name.startswith(("tests.", ".")) and ".test_" in name]


@pytest.mark.slow
def test_what_tests_share_stands_in_support() -> None:
    """No test module imports from another one; where faults are seeded, those that must see them are run."""
    for path in (ROOT / "tests").rglob("*.py"):
        names = borrowed(ast.parse(path.read_text()))
        if path.name.startswith("test_seeded_faults"):
            names = [name for name in names if not (ROOT / f"{name.replace('.', '/')}.py").is_file()]
        assert not names, f"{path.name} imports {', '.join(names)}: to tests/support with what both need"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "from tests.exact.test_own import Some as S, x",
            ["tests.exact.test_own.Some", "tests.exact.test_own.x"],
        ),
        ("def f():\n    from tests.exact import test_own", ["tests.exact.test_own"]),
        ("from tests import test_layout", ["tests.test_layout"]),
        ("import tests.exact.test_own as t", ["tests.exact.test_own"]),
        ("from .test_own import Some", [".test_own.Some"]),
        ("from . import test_own", ["..test_own"]),
        ("from tests.support.user_formats import Some\nfrom cocotb import test_x", []),
    ],
)
def test_what_is_borrowed_is_found(text: str, names: list[str]) -> None:
    assert borrowed(ast.parse(text)) == names


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def rank(module: str) -> int:
    """Position in ORDER of a module (without the leading 'intnet.') by its longest prefix."""
    for prefix in sorted(ORDER, key=len, reverse=True):
        if module == prefix or module.startswith(prefix + "."):
            return ORDER.index(prefix)
    raise AssertionError(f"module {module!r} has no place in ORDER")


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if module_name(path) != "__init__"]


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    for path in FILES:
        mine = rank(module_name(path))
        above = [name for name in imports(path) if rank(name) > mine]
        assert not above, f"{module_name(path)} imports {above}, which stand above it"


def loaded(tree: ast.Module) -> set[str]:
    """Those that are imported when the file is: not inside a function, nor for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        ):
            node.body = [ast.Pass()]
    return imported(tree)


# Modules that import each other, in functions or for types alone, for what they hold cannot be told apart.
CIRCLES = {
    ("methods.method", "methods.packing"): "a method's tape is packed by what asks it for words and counts",
    (
        "numbers.arithmetic",
        "numbers.numpy_functions",
        "numbers.qtensor",
        "numbers.small_floats",
    ): "operators and NumPy's functions are methods of tensors, and give tensors",
    ("training.epochs", "training.train"): "`Run.fit` trains by epochs, whose callbacks are given the run",
}


def circles(needed: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Of modules and what each imports: those that reach each other, a tuple a circle."""
    reached = {}
    for name in needed:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            found = needed.get(waiting.pop(), set()) - seen
            seen |= found
            waiting += found
        reached[name] = seen
    return {
        tuple(sorted(other for other in seen if name in reached.get(other, ())))
        for name, seen in reached.items()
        if name in seen
    }


@pytest.mark.slow
def test_no_circle() -> None:
    """Within rooms too: every module can be loaded after those that it loads; and of all imports, in
    functions and for types too, but those that are named above."""
    trees = {module_name(path): ast.parse(path.read_text()) for path in FILES}
    assert circles({name: imported(tree) - {name} for name, tree in trees.items()}) == CIRCLES.keys()
    assert not circles({name: loaded(tree) - {name} for name, tree in trees.items()})


def test_a_circle_is_found() -> None:
    needed = {"a": {"b", "x"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(needed) == {("a", "b", "c"), ("d", "e")}
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    text = (
        "if TYPE_CHECKING:\n    from intnet import exact\ndef f():\n    import intnet.ops\nimport intnet.spec"
    )
    assert imported(ast.parse(text)) == {"ops", "exact", "spec"}
    assert loaded(ast.parse(text)) == {"spec"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_for(room: str) -> None:
    path = PACKAGE / room / "__init__.py"
    path = path if path.exists() else PACKAGE / f"{room}.py"
    told = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    assert told.startswith(ROOMS[room])


def test_the_house_has_these_rooms() -> None:
    names = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert names - {"__init__"} == ROOMS.keys()
    assert len(ROOMS) <= 28  # of which cocotb and torch are files that nothing here imports


def test_a_command_is_one_file() -> None:
    """Beside them what all share; what a command computes and shows is in the room that it is about."""
    shared = {"__init__", "main", "options", "source", "stopping", "terminal", "together"}
    files = {f"intnet.cli.{path.stem}" for path in (PACKAGE / "cli").glob("*.py") if path.stem not in shared}
    assert files == {module.__name__ for module in COMMANDS.values()}


def test_methods_never_import_layers_or_models() -> None:
    for path in (PACKAGE / "methods").glob("*.py"):
        assert not any(name.startswith(("layers", "models")) for name in imports(path)), path.name


@pytest.mark.slow
def test_a_module_says_what_it_is_for() -> None:
    for path in FILES:
        told = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert len(told) > 20, f"{module_name(path)} says {told!r}"


@pytest.mark.slow
def test_files_and_functions_stay_small() -> None:
    for path in sorted(ROOT.glob("tests/**/*.py")) + FILES:
        source = path.read_text()
        assert source.count("\n") <= 450, f"{path} has grown: its idea is two ideas"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name} has grown"


def test_benchmarks_need_nothing_but_the_package_and_what_it_needs() -> None:
    """And the peers that their extra lists, each in one version, and what builds qtorch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [requirement.partition("==") for requirement in project["optional-dependencies"]["bench"]]
    peers = {"torch", "qtorch", "onnx", "onnxruntime"}
    assert {name for name, _, _ in extra} == {*peers, "ninja", "setuptools"}
    assert {name for name, _, version in extra if version} == peers
    needed = {requirement.split(">=")[0] for requirement in project["dependencies"]} | {"llvmlite"}  # Numba's
    for path in (ROOT / "bench").glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        others = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"intnet", "bench"}
        assert others <= needed | peers, path.name


@pytest.mark.slow
def test_benchmarks_do_without_their_peers() -> None:
    """Each one imports, and what is missing is said in a line."""
    code = (
        "import importlib, sys; sys.modules.update(torch=None, qtorch=None, onnx=None)\n"
        "from bench.__main__ import NAMES, peers\n"
        "for name in NAMES: importlib.import_module(f'bench.{name}').rows\n"
        "assert peers.torch is None and peers.qtorch() is None and not peers.onnx_runtime()\n"
        "print(*peers.MISSING, sep='\\n')"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 3
    assert "pip install -e '.[bench]'" in lines[0]
    assert lines[1].startswith("qtorch is not here")


def test_every_operation_has_a_gradient_and_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "ops").glob("test_ops*.py"))
    for name, op in OPS.items():
        assert op.name == name
        assert op.vjp is not None
        assert name in tests, f"operation {name} has no test in tests/ops/test_ops*.py"


def test_every_method_and_model_is_registered_under_its_name() -> None:
    assert all(cls.name == name for name, cls in methods.METHODS.items())
    for name in models.MODELS:
        assert models.make(name, (32, 32, 3), 10).kind == name


def test_every_registered_thing_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for registry in (methods.METHODS, models.MODELS):
        for name in registry.keys() - registry.origins.keys():  # those of tests are a user's own
            assert f"`{name}`" in readme, f"{name} is not in the README"


# -- what defines the fast code ------------------------------------------------------------------


def definitions(docstring: str | None) -> list[tuple[str, str]]:
    """(file below intnet/, name) of everything that a docstring says it is defined by."""
    said = re.findall(r"Defined by ((?:`[^`]*`,?\s*)+)", docstring or "")
    return [tuple(span.split(": ")) for part in said for span in re.findall(r"`([^`]*)`", part)]


def missing(docstring: str | None) -> list[str]:
    """What it names that the definition does not have, or not in this form: `spec/FILE.py: NAME`."""
    lines = []
    for said in definitions(docstring):
        file = PACKAGE / said[0]
        if not (said[0].startswith("spec/") and len(said) == 2 and file.is_file() and said[1] in names(file)):
            lines.append(": ".join(said))
    every = set(re.findall(r"`(spec/[^`]*)`", docstring or ""))
    return lines + sorted(every - {": ".join(said) for said in definitions(docstring)})


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module and of all that it defines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""


@pytest.mark.slow
def test_docstrings_name_definitions_that_exist() -> None:
    for path in FILES:
        for name, text in docstrings(path):
            assert not missing(text), f"{module_name(path)}, {name}: {missing(text)}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Defined by `spec/formats.py: Shift`.", []),
        ("x. Defined by `spec/formats.py: Shift`,\n`spec/nets.py: Walk.forward`. y", []),
        ("Defined by `spec/formats.py: Shifted`.", ["spec/formats.py: Shifted"]),
        ("Defined by `spec/format.py: Shift`.", ["spec/format.py: Shift"]),
        ("Defined by `spec/formats.py: Shift`, `spec/nets.py: Walk.fro`.", ["spec/nets.py: Walk.fro"]),
        ("Defined by `spec.formats.Shift`.", ["spec.formats.Shift"]),
        ("Defined by `numbers/formats.py: Shift`.", ["numbers/formats.py: Shift"]),
        ("It is that of `spec/formats.py: Shift`.", ["spec/formats.py: Shift"]),
    ],
)
def test_a_definition_that_does_not_exist_is_found(text: str, lines: list[str]) -> None:
    assert missing(text) == lines


def test_a_docstring_without_a_definition_is_found() -> None:
    for text in (None, "", "y = x * 2.", "Defined by spec/formats.py: Shift.", "See `exact/quantize.py`."):
        assert not definitions(text)


def test_quantizers_operations_and_methods_name_their_definition() -> None:
    """A format's class and its quantizer, an operation's module or its forward, a method's module."""
    for kind in formats.FORMATS.values():
        assert definitions(kind.__doc__), kind.__name__
    for kind, quantizer in quantize._QUANTIZERS.items():
        said = definitions(quantizer.__doc__)
        assert ("spec/formats.py", kind.__name__) in said, quantizer.__name__
    for name, op in OPS.items():
        module = sys.modules[op.forward.__module__]
        assert definitions(module.__doc__) or definitions(op.forward.__doc__), name
    for name, cls in methods.METHODS.items():
        files = {file for file, _ in definitions(sys.modules[cls.__module__].__doc__)}
        assert f"spec/methods/{name}.py" in files, name
