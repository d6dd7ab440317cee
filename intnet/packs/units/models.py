"""A unit's model in C: `intnet golden unit NAME --c --out DIR`.

write("quantize_sq", {"K": "4"}, "model") -> Path     the model, its DPI-C, a testbench of random words
"""

from collections.abc import Mapping
from pathlib import Path

from intnet.errors import ConfigError
from intnet.packs.circuits import c_model, dpi
from intnet.packs.units.drafts import chosen, parse, unit_of
from intnet.runs.archive import PathLike
from intnet.runs.files import write_folder
from intnet.spec import units as definition


def files(name: str, settings: Mapping[str, str | int] | None = None) -> dict[str, str]:
    """Name -> text of all files. ConfigError for a unit or a setting that there is not."""
    unit = unit_of(name)
    given = parse(unit, settings or {})
    if strange := [key for key in given if key not in unit.parameters]:
        raise ConfigError(f"{strange[0]} is a setting of packs, and none of the model")
    parameters = chosen(unit, given)
    circuit = definition.circuit(name, parameters)
    formulas = [port.meaning for port in unit.signals(parameters, {}) if port.direction == "out"]
    made = c_model.files(name, circuit, parameters, formulas)
    return made | dpi.files(name, circuit, unit.generics(parameters))


def write(name: str, settings: Mapping[str, str | int] | None, folder: PathLike) -> Path:
    """All of them into a new folder, which is there whole or not at all."""
    made, target = files(name, settings), Path(folder)
    write_folder(target, ((file, text.encode()) for file, text in made.items()))
    return target
