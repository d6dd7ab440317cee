"""SystemVerilog beside a pack: `files(manifest)`. Read `files`, then `drive` (a unit), `compare` (layers)."""

from intnet.packs.hdl.files import files

__all__ = ["files"]
