"""Is anything lost when a rank is killed? kill -9 of a random rank at 20 random moments of a run.

Every method, ResNet-8 on 150 digits, six epochs of two steps, saved every other step, on two to four ranks;
the moment is a random part of the run, from its start to its last step. It goes on by `intnet resume`
on another number of ranks, and is held against one process that nobody killed: the state's SHA-256,
metrics.jsonl without times, the report without what the machine held, all files of a pack of the first layer.
What is done is kept in bench/results/kills.jsonl, by the sources: the next call goes on there.

Needs mpirun and mpi4py: pip install 'intnet[mpi]'.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.ranks import MOVING, environment, mpirun, told
from bench.summary import Row, at_most
from intnet.methods import METHODS
from intnet.runs import definition

KILLS = 20
QUESTION = f"kill -9 of a random rank at {KILLS} random moments, then resumed on other ranks"
KEPT = Path(__file__).parent / "results" / "kills.jsonl"
RUN = ("--model", "resnet8", "--data", "digits", "--limit", "150", "--batch-size", "96", "--epochs", "6")
LINES = 6 * 2 + 6  # of steps and epochs; methods that log more have more
STEP = 1.0  # seconds; a moment lies up to so many after the line that it is counted from
UNPACKED = ("banner", "mx")  # methods whose runs `intnet golden` refuses
SAID = "; go on with: intnet resume "


def train(method: str, out: Path) -> list[str]:
    options = [part for option in MOVING.get(method, ()) for part in ("--set", option)]
    return [
        "-m",
        "intnet",
        "train",
        "--method",
        method,
        *RUN,
        *options,
        "--checkpoint-every",
        "2",
        "--out",
        str(out),
    ]


def run(line: list[str]) -> None:
    subprocess.run(line, env=environment(1), check=True, capture_output=True)


def found(folder: Path, method: str) -> dict[str, Any]:
    """What a finished run is, with a pack of its first layer where there are packs of its method."""
    if method in UNPACKED:
        return {**told(folder), "pack": None}
    pack = folder.with_name("pack")
    run([sys.executable, "-m", "intnet", "golden", str(folder), "--layer", "conv1", "--out", str(pack)])
    sha = hashlib.sha256()
    for path in sorted(path for path in pack.rglob("*") if path.is_file()):
        sha.update(f"{path.relative_to(pack).as_posix()}\n".encode() + path.read_bytes())
    return {**told(folder), "pack": sha.hexdigest()}


def ranks_of(process: psutil.Process) -> dict[int, psutil.Process]:
    """The ranks of an mpirun that are there."""
    made = {}
    for child in process.children(recursive=True):
        try:
            made[int(child.environ()["OMPI_COMM_WORLD_RANK"])] = child
        except (psutil.Error, KeyError):
            continue
    return made


def killed(line: list[str], folder: Path, rank: int, moment: tuple[int, float]) -> Row:
    """Start it, kill the rank so many seconds after a line of metrics.jsonl, wait for the end."""
    metrics, (lines, seconds) = folder / "metrics.jsonl", moment
    with subprocess.Popen(
        line, env=environment(1), stderr=subprocess.PIPE, text=True, stdout=subprocess.PIPE
    ) as process:
        while process.poll() is None and (metrics.read_text().count("\n") if metrics.exists() else 0) < lines:
            time.sleep(0.01)
        time.sleep(seconds)
        there = ranks_of(psutil.Process(process.pid)) if process.poll() is None else {}
        if rank in there:
            os.kill(there[rank].pid, signal.SIGKILL)
        printed, said = process.communicate()
    steps = (
        [json.loads(text)["step"] for text in metrics.read_text().splitlines()] if metrics.exists() else []
    )
    told = said.count(SAID) + ("state sha256: " in printed)  # after the digest nothing is left to be done
    return {"at step": max(steps, default=0), "ended": process.returncode != 0, "lines": told}


def _one(k: int) -> Row:
    rng = random.Random(k)
    method, ranks = list(METHODS)[k % len(METHODS)], rng.choice((2, 3, 4))
    rank, again = rng.randrange(ranks), rng.choice([n for n in (1, 2, 3, 4) if n != ranks])
    moment = rng.randrange(LINES), rng.uniform(0, STEP)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        row = killed(mpirun(ranks, *train(method, folder)), folder, rank, moment)
        begun = (folder / "config.json").exists()  # else nothing was there to be lost
        own = ["-m", "intnet", "resume", str(folder)] if begun else train(method, folder)
        run(mpirun(again, *own))
        return {
            "method": method,
            "ranks": ranks,
            "killed": rank,
            **row,
            "then ranks": again,
            **found(folder, method),
        }


def _alone(method: str) -> Row:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        run([sys.executable, *train(method, folder)])
        return {"method": method, **found(folder, method)}


def rows() -> list[Row]:
    KEPT.parent.mkdir(exist_ok=True)
    sources = definition.sources()
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    kept = {row["key"]: row for row in map(json.loads, lines) if row["sources"] == sources}
    work: list[tuple[str, Any, Any]] = [(f"alone {method}", _alone, method) for method in METHODS]
    for key, make, given in [*work, *((f"kill {k}", _one, k) for k in range(KILLS))]:
        if key not in kept:
            kept[key] = {"key": key, "sources": sources, **make(given)}
            with KEPT.open("a") as stream:
                stream.write(json.dumps(kept[key]) + "\n")
    return [_row(kept[f"kill {k}"], kept) for k in range(KILLS)]


def _row(one: Row, kept: dict[str, Row]) -> Row:
    alone = kept[f"alone {one['method']}"]
    shown = {
        key: one[key] for key in ("method", "ranks", "killed", "at step", "ended", "lines", "then ranks")
    }
    pairs = (("state", "digest"), ("metrics, report", "rest"), ("pack", "pack"))
    return shown | {name: one[key] == alone[key] for name, key in pairs}


def targets(rows: list[Row]) -> list[Row]:
    unlike = sum(not (row["state"] and row["metrics, report"] and row["pack"]) for row in rows)
    silent = sum(row["lines"] != 1 for row in rows if row["ended"] and row["at step"])
    return [
        at_most(0, f"of {len(rows)} runs with a killed rank, those unlike an unbroken run", unlike),
        at_most(
            0,
            "of those killed after their first step, those without one line of what is kept, or the digest",
            silent,
        ),
    ]
