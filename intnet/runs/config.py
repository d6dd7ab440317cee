"""config.json of a run: what the run is, and the plan by which it goes on. Read next: `run_folder.py`."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intnet.errors import ConfigError
from intnet.runs import definition, files, records
from intnet.runs.identity import IDENTITY, OF_SOME
from intnet.runs.kept import CONFIG

FORMAT, VERSION = "intnet run", 1
CHECKPOINT_EVERY = 100


@dataclass(frozen=True)
class Plan:
    """What may change when a run goes on: steps in all, steps between checkpoints, where things are.

    data_dir: where the data are; imports: files of users' own that define what the run is made of
    """

    steps: int
    checkpoint_every: int = CHECKPOINT_EVERY
    data_dir: str | None = None
    imports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for what, value in (("steps", self.steps), ("checkpoint_every", self.checkpoint_every)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{what} = {value!r}: give a whole number of at least 1")
        if self.data_dir is not None and not isinstance(self.data_dir, str):
            raise ConfigError(f"data_dir = {self.data_dir!r}: give the path of a folder, or none")
        if not isinstance(self.imports, list) or not all(isinstance(file, str) for file in self.imports):
            raise ConfigError(f"imports = {self.imports!r}: give a list of paths")


def write(folder: Path, own: dict[str, Any], plan: Plan) -> None:
    """config.json, whole or not at all."""
    config = definition.head(FORMAT, VERSION) | {"run": own, "plan": dataclasses.asdict(plan)}
    if not plan.imports:
        del config["plan"]["imports"]
    files.replace(folder / CONFIG, pretty(config))


def pretty(content: dict[str, Any]) -> bytes:
    """JSON as people read it."""
    return (json.dumps(content, indent=2) + "\n").encode()


def read(folder: Path) -> tuple[dict[str, Any], Plan]:
    """(identity, plan) of config.json; ConfigError when it is missing or damaged."""
    path = folder / CONFIG
    if not folder.is_dir():
        what = "that is a file; give the run's folder" if folder.exists() else "there is no such run folder"
        raise ConfigError(f"{folder}: {what}")
    try:
        config = records.parse(path.read_bytes())
        if why := definition.refused(config, "run", FORMAT, VERSION):
            raise ConfigError(why)
        plan = Plan(**config["plan"])
        own = records.check(config["run"], IDENTITY, "run")
        return records.check(own, {key: OF_SOME[key] for key in OF_SOME if key in own}, "run"), plan
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not a run folder: it has no {CONFIG}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{path}: damaged ({what}): mend it, or train again") from None
