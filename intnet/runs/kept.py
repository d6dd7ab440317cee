"""What is kept of a run, in a line: read in its folder at that moment, by whatever rank says it.

Of what loads at once: a rank that is stopped in its start has a moment to say it.
"""

import json
import shlex
from pathlib import Path

from intnet.runs import archive
from intnet.runs.archive import PathLike

CONFIG, CHECKPOINT = "config.json", "checkpoint.npz"


def resume_command(folder: PathLike) -> str:
    """What a user types to go on."""
    name = str(folder)
    return f"intnet resume {shlex.quote(f'./{name}' if name.startswith('-') else name)}"


def told(folder: PathLike) -> str:
    """'runs/w is saved at step 24 of 4,000; go on with: intnet resume runs/w'."""
    path = Path(folder)
    if not (path / CONFIG).exists():  # the last file of a new run, the checkpoint stands by then
        return f"nothing is saved in {folder} yet; give the command again"
    done = archive.told(path / CHECKPOINT)["meta"]["step"]
    planned = json.loads((path / CONFIG).read_bytes())["plan"]["steps"]
    return f"{folder} is saved at step {done:,} of {planned:,}; go on with: {resume_command(folder)}"
