"""CONTRACT.md: what every port of a pack means, for a reader who has no Python."""

from typing import Any


def text(manifest: dict[str, Any]) -> str:
    """The page of a PACK.json."""
    return f"# {manifest['name']} {manifest['version']}\n"
