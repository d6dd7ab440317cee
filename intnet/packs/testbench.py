"""The SystemVerilog beside a pack: `pack.svh` with its sizes and load guards, and testbenches that use it."""

from typing import Any


def files(manifest: dict[str, Any]) -> dict[str, str]:
    """Path inside the pack -> text, of a PACK.json."""
    return {"hdl/pack.svh": f"// {manifest['name']}\n"}
