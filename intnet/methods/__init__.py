"""Methods: one paper a module, in its symbols. Every method is listed here, once."""

from typing import Any

from intnet.methods.adapt import Adapt
from intnet.methods.banner import Banner
from intnet.methods.dynasty import Dynasty
from intnet.methods.float32 import Float32
from intnet.methods.method import Method, Parameter
from intnet.methods.muppet import Muppet
from intnet.methods.options import unknown
from intnet.methods.saved import Saved
from intnet.methods.wageubn import Wageubn

METHODS: dict[str, type[Method]] = {
    "float32": Float32,
    "wageubn": Wageubn,
    "adapt": Adapt,
    "muppet": Muppet,
    "dynasty": Dynasty,
    "saved": Saved,
    "banner": Banner,
}

__all__ = [
    "METHODS", "Adapt", "Banner", "Dynasty", "Float32", "Method", "Muppet", "Parameter", "Saved", "Wageubn",
    "make",
]  # fmt: skip


def make(name: str, /, **options: Any) -> Method:
    """A method by name, with its options; ConfigError names what is unknown."""
    if name not in METHODS:
        raise unknown("method", name, list(METHODS))
    return METHODS[name](**options)
