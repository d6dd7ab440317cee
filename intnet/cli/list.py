"""`intnet list`: methods with their options, models, data sets, rounding modes, formats, units, levels."""

import argparse
import inspect
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from intnet.cli import options as cli_options

if TYPE_CHECKING:
    from intnet.methods.method import Method

SUMMARY = "list methods with their options, models, data sets, rounding modes, formats, units of golden packs"
EXAMPLE = "  intnet list\n  intnet list --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to look for data."""
    cli_options.add(parser, "--data-dir")


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    listing = collect(args.data_dir)
    if args.json:
        print(json.dumps(listing))
        return 0
    for kind, entries in listing.items():
        print(kind.replace("_", " "))
        width = max(map(len, entries))
        for name, entry in entries.items():
            shown = f"({', '.join(entry['fields'])})" if "fields" in entry else ""
            print(f"  {name:{width}}  {entry['about']}{f'  {name}{shown}' * bool(shown)}")
            for line in filter(None, entry.get("options_help", "").splitlines()):
                print(f"  {'':{width}}  {line}")
            shared = entry.get("shared", [])
            for key, option in entry.get("options", {}).items():
                choices = f"  (one of {', '.join(option['choices'])})" if "choices" in option else ""
                if key not in shared:
                    print(f"  {'':{width}}    --set {key}={option['default']}{choices}")
            if shared:
                print(f"  {'':{width}}    as for float32: {', '.join(shared)}")
        print()
    print("`--set` shows the defaults.")
    return 0


def collect(data_dir: str | None = None) -> dict[str, dict[str, Any]]:
    """All names, as JSON values."""
    from intnet import datasets, models, plugins
    from intnet.methods import METHODS
    from intnet.numbers.ap_fixed import ApFixed
    from intnet.numbers.formats import FORMATS
    from intnet.numbers.microscaling import MXS, Microscaling
    from intnet.numbers.rounding import HLS_ALIASES, MODES
    from intnet.numbers.small_floats import FLOATS, Float
    from intnet.packs.units import LEVELS, UNITS
    from intnet.packs.units.drafts import LFSR, settings_of

    plugins.discover()
    of_tensors = {kind.__name__: kind for kind in (ApFixed, Float, Microscaling)}
    named = {name: format.bits for name, format in FLOATS.items()}
    named |= {name: format.bits for name, format in MXS.items()}
    hls = {mode: alias for alias, mode in HLS_ALIASES.items()}
    return {
        "methods": {
            name: {
                "about": _first_line(sys.modules[cls.__module__].__doc__, name),
                "options_help": inspect.getdoc(cls.Options) or "",
                "options": options(cls),
                "shared": shared(cls),
            }
            for name, cls in METHODS.items()
        },
        "models": {name: {"about": _told(make, name)} for name, make in models.MODELS.items()},
        "data": {name: _data(datasets.available(name, data_dir)) for name in datasets.LOADERS}
        | {"folder:PATH": _folder()}
        | {"arrays:FILE.npz": {"about": "X, y, perhaps X_test, y_test, of numpy.savez", "available": True}},
        "rounding_modes": {
            name: {"about": f"HLS name {hls[name]}" if name in hls else "no HLS name"} for name in MODES
        },
        "formats": {
            name: {"about": _first_line(kind.__doc__, name), "fields": _fields(kind)}
            for name, kind in (FORMATS | of_tensors).items()
        }
        | {name: {"about": f"{bits} bits an element: intnet.{name}"} for name, bits in named.items()},
        "units": {
            name: {
                "about": unit.summary,
                "options": {
                    key: {"default": "off" if key == LFSR else setting.default}
                    for key, setting in settings_of(unit).items()
                },
            }
            for name, unit in UNITS.items()
        },
        "levels": {name: {"about": about} for name, about in LEVELS.items()},
    }


def options(method: "type[Method]") -> dict[str, dict[str, Any]]:
    """Key -> default and, where they are few, choices of a method's options; None is written 'off'."""
    import dataclasses
    import typing

    hints = typing.get_type_hints(method.Options)
    found: dict[str, dict[str, Any]] = {}
    for field in dataclasses.fields(method.Options):
        found[field.name] = {"default": "off" if field.default is None else field.default}
        if typing.get_origin(hints[field.name]) is typing.Literal:
            found[field.name]["choices"] = [str(choice) for choice in typing.get_args(hints[field.name])]
    return found


def shared(method: "type[Method]") -> list[str]:
    """Keys that a method takes over from those that its options derive from, with their defaults."""
    import dataclasses

    from intnet.methods import METHODS

    parents = (other for other in METHODS.values() if issubclass(method, other) and other is not method)
    own = all(other.Options is not method.Options for other in parents)
    bases = method.Options.__mro__[own:-1]  # of several the last, as method saved adds to float32's
    given = {field.name: field.default for field in dataclasses.fields(bases[-1])} if bases else {}
    fields = dataclasses.fields(method.Options)
    return [field.name for field in fields if given.get(field.name, dataclasses.MISSING) == field.default]


def _fields(format: Any) -> list[str]:
    """Of its dataclass; those that may be left out with what they then are."""
    import dataclasses

    return [
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default}"
        for field in dataclasses.fields(format)
    ]


def _data(available: bool) -> dict[str, Any]:
    return {"about": "available" if available else "its files are not here", "available": available}


def _folder() -> dict[str, Any]:
    from importlib.util import find_spec

    about = "images by class, PNG or JPEG: PATH/train/CLASS/*.png and PATH/test/CLASS/ or PATH/val/CLASS/"
    here = find_spec("PIL") is not None
    return {"about": about + ("" if here else "; pip install pillow"), "available": here}


def _told(make: Callable[..., Any], name: str) -> str:
    """The first line of the model's module, and the model's own docstring, where it has one."""
    return f"{_first_line(sys.modules[make.__module__].__doc__, name)} {make.__doc__ or ''}".rstrip()


def _first_line(doc: str | None, name: str) -> str:
    """The first line of a module's docstring, without the name that stands in front of it."""
    line = (doc or "").strip().split("\n")[0]
    head, _, rest = line.partition(": ")
    return rest if rest and head.lower() == name.lower() else line
