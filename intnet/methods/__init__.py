"""Methods: one paper a module, in its symbols. All are listed here, once; `register` adds one's own."""

import inspect
from typing import Any

from intnet.errors import ConfigError
from intnet.methods.adapt import Adapt
from intnet.methods.banner import Banner
from intnet.methods.dynasty import Dynasty
from intnet.methods.float32 import Float32
from intnet.methods.method import Method, Parameter
from intnet.methods.muppet import Muppet
from intnet.methods.mx import Mx
from intnet.methods.saved import Saved
from intnet.methods.wageubn import Wageubn
from intnet.plugins import Registry


def _named(name: str, cls: Any) -> None:
    """Give a method of a user's own its name, by which runs know it."""
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise ConfigError(f"method {name!r}: register a class that derives from Method, or from another one")
    if vars(cls).get("name", name) != name:
        raise ConfigError(f"method {name!r}: its class says name = {vars(cls)['name']!r}: leave that out")
    given = inspect.signature(cls.__init__).parameters.values()
    odd = [one.name for one in list(given)[1:] if one.kind is not inspect.Parameter.VAR_KEYWORD]
    if odd:
        raise ConfigError(
            f"method {name!r}: its __init__ takes {', '.join(odd)}, which no run would remember: make them "
            "fields of `Options`"
        )
    if cls.update is Method.update and cls.update_all is Method.update_all:
        raise ConfigError(
            f"method {name!r} has no update: write one, or derive from FloatMaster "
            "(intnet.methods.float_master), which moves float32 masters"
        )
    if not callable(cls.streams):
        raise ConfigError(
            f"method {name!r}: streams is a method, streams(self, layers), that lists their names"
        )
    cls.name = name


_KNOWN: dict[str, type[Method]] = {
    "float32": Float32,
    "wageubn": Wageubn,
    "adapt": Adapt,
    "muppet": Muppet,
    "dynasty": Dynasty,
    "saved": Saved,
    "banner": Banner,
    "mx": Mx,
}
METHODS = Registry("method", _KNOWN, _named)
register = METHODS.register

__all__ = [
    "METHODS", "Adapt", "Banner", "Dynasty", "Float32", "Method", "Muppet", "Mx", "Parameter", "Saved",
    "Wageubn", "make", "register",
]  # fmt: skip


def make(name: str, /, **options: Any) -> Method:
    """A method by name, with its options; ConfigError names what is unknown."""
    return METHODS.find(name)(**options)
