"""Pages of docs/ as tests read them: their blocks, links and anchors, and how their blocks are run.

    ```python     `>>>` lines are doctests; without them it is run as it stands. All of a page share one
                  namespace. One that starts with `# intnet/....py` is also what that file would hold
    ```console    `$ ` commands with what they print; `...` stands for what may differ
    A ```python block that starts with `# NAME.py` is a file of the reader's own: it is written into the
    scratch folder; from here on commands know of it by --import alone, and other blocks are processes of
    their own.

    ```diff       a change of the library: from here on the page goes on in a changed copy of it, where
                  every block is a process of its own, without Numba's compiler

Everything runs in a scratch folder. An edit of a diff is found by its own lines, which must stand in the
file once: line numbers, which every commit moves, are not needed.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from intnet.cli.main import main
from tests.support.command import afresh

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COPIED = ("intnet", "data", "tests", "pyproject.toml", "README.md")
FLAGS = doctest.ELLIPSIS


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


# -- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def prose(text: str) -> str:
    """A page without its blocks."""
    return FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Targets of `[text](target)`; not what stands in code."""
    plain = re.sub(r"`[^`\n]*`", "code", prose(text))
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", plain)


def anchors(text: str) -> set[str]:
    """Those that GitHub and MyST give to headings."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def spans(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


@cache
def names(path: Path) -> set[str]:
    """Everything that a Python file defines: functions, classes, `Class.method`, constants."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for owner, nodes in [("", tree.body)] + [
        (f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef)
    ]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(owner + node.name)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {owner + part.id for part in parts if isinstance(part, ast.Name)}
    return found


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """The table below a heading: first cell -> the others."""
    part = re.split(r"^#+ .*$", text.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line.strip().strip("|").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines}


# -- running -------------------------------------------------------------------------------------


class Session:
    """The blocks of a page, one after another; a failure names the line in the page."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.space: dict[str, object] = {"__name__": f"docs_{page.stem.replace('-', '_')}"}
        self.files: dict[str, str] = {}
        self.copy: Path | None = None
        self.own = False  # whether the reader has files

    def run(self) -> None:
        name = str(self.space["__name__"])
        sys.modules[name] = types.ModuleType(name)  # dataclasses look for their module
        try:
            for block in blocks(self.page.read_text()):
                step = getattr(self, f"_{block.kind}", None)
                if step is not None:
                    step(block)
        finally:
            del sys.modules[name]

    def _where(self, block: Block) -> str:
        return f"{self.page.name}, line {block.line}"

    def _python(self, block: Block) -> None:
        own = re.match(r"# (\w+\.py)\n", block.text)
        if own:
            (self.folder / own[1]).write_text(block.text)
            self.own = True
            return
        file = re.match(r"# ((?:intnet|tests)/\S+\.py)\n", block.text)
        if file:
            self.files[file[1]] = block.text
            if self.copy is not None:
                (self.copy / file[1]).write_text(block.text)
        if ">>>" not in block.text:
            if self.copy is None:
                exec(compile(block.text, self._where(block), "exec"), self.space)
            return
        if self.copy is not None or self.own:
            (self.folder / "block.txt").write_text(block.text)
            done = self._process([sys.executable, "-m", "doctest", "-o", "ELLIPSIS", "block.txt"])
            assert done.returncode == 0, f"{self._where(block)}:\n{done.stdout}{done.stderr}"
            return
        test = doctest.DocTestParser().get_doctest(
            block.text, self.space, self._where(block), str(self.page), block.line - 1
        )
        runner, said = doctest.DocTestRunner(optionflags=FLAGS), io.StringIO()
        runner.run(test, out=said.write, clear_globs=False)
        self.space |= test.globs
        assert not runner.summarize(verbose=False).failed, f"{self._where(block)}:\n{said.getvalue()}"

    def _console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, want = part.partition("\n")
            got = self._command(command.partition("  #")[0])
            same = doctest.OutputChecker().check_output(want.rstrip("\n") + "\n", got, FLAGS)
            assert same or not want.strip(), f"{self._where(block)}: $ {command}\nprints\n{got}\nnot\n{want}"

    def _command(self, command: str) -> str:
        """What a command prints on stdout, without trailing blanks; intnet's run in this process."""
        words = shlex.split(command)
        if words[0] == "intnet" and self.copy is None and self.own:
            status, out, err = afresh(self.folder, *words[1:])
            assert status == 2 or (status in (0, 1) and not err), f"$ {command}\n{err}"
            return _trimmed(err if status == 2 else out)  # refused, as the page shows
        if words[0] == "intnet" and self.copy is None:
            printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as a terminal's, for histograms
            before = Path.cwd()
            try:
                os.chdir(self.folder)
                with contextlib.redirect_stdout(printed):
                    assert main(words[1:]) in (0, 1), command
            finally:
                os.chdir(before)
            printed.seek(0)
            return _trimmed(printed.read())
        if words[0] == "intnet":
            words[:1] = [sys.executable, "-m", "intnet"]
        elif words[0] == "python":
            words[0] = sys.executable
        done = self._process(words)
        assert done.returncode in (0, 1) and not done.stderr, f"$ {command}\n{done.stderr}"
        return _trimmed(done.stdout)

    def _process(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        changed = {"PYTHONPATH": str(self.copy or ROOT)}
        if self.copy is not None:
            changed["NUMBA_DISABLE_JIT"] = "1"
        place = self.copy if self.copy is not None and "pytest" in words else self.folder
        return subprocess.run(
            words, cwd=place, env={**os.environ, **changed}, capture_output=True, text=True, check=False
        )

    def _diff(self, block: Block) -> None:
        if self.copy is None:
            self.copy = self.folder / "copy"
            for name in COPIED:
                source, target = ROOT / name, self.copy / name
                if source.is_dir():
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, target)
            for name, text in self.files.items():
                (self.copy / name).write_text(text)
        apply(block.text, self.copy)


def _trimmed(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def apply(diff: str, root: Path) -> None:
    """Make the edits of a diff; AssertionError where lines to be changed do not stand in the file once."""
    for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        path = root / part.split("\n", 1)[0].strip()
        text = path.read_text()
        for hunk in re.split(r"^@@.*\n", part, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines()
            old = "".join(line[1:] + "\n" for line in lines if line[:1] in (" ", "-", ""))
            new = "".join(line[1:] + "\n" for line in lines if line[:1] in (" ", "+", ""))
            assert text.count(old) == 1, f"{path.name} holds {text.count(old)} times:\n{old}"
            text = text.replace(old, new)
        path.write_text(text)
