"""The package's modules as files: what each of them imports of the others."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "intnet"


def imports(path: Path) -> set[str]:
    """Modules of intnet that a file imports, as written anywhere in it."""
    return imported(ast.parse(path.read_text()))


def imported(tree: ast.AST) -> set[str]:
    """Modules of intnet that are imported in a tree."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith("intnet.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "intnet":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                target = PACKAGE.joinpath(*whole.split(".")[1:])
                is_module = target.with_suffix(".py").exists() or (target / "__init__.py").exists()
                found.add(whole if is_module else str(node.module))
    return {name.removeprefix("intnet.") for name in found if name != "intnet"}
