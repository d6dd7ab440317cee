"""Do ranks give the digest of one process? Every method, on up to seven ranks of one and two threads each.

ResNet-20 on 120 images of 32x32x3, EfficientNetV2 on as many of 8x8: an epoch of two steps and one more, of
five groups of 16 images, of three (the last one short), of five: so some ranks have more than others, and of
seven some none. Between the epochs dynasty makes its map, adapt switches its word lengths, muppet's policy
decides. A run is `intnet train` in a process that `mpirun` started, all runs of so many ranks and threads one
after another in the same processes. Compared with one process: the state's SHA-256, metrics.jsonl without
times, the report without what the machine held. What is done is kept in bench/results/ranks.jsonl, by the
sources: the next call goes on there.

Needs mpirun and mpi4py: pip install 'intnet[mpi]'.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.summary import Row, at_most
from intnet.cli import together
from intnet.cli.main import main
from intnet.errors import ConfigError
from intnet.methods import METHODS
from intnet.runs import definition

RANKS, THREADS = (3, 7, 2, 4, 1), (1, 2)  # in the order in which they run
QUESTION = f"digests on {', '.join(map(str, sorted(RANKS)))} ranks of one and two threads, beside one process"
IMAGES, TESTED, BATCH, STEPS = 120, 24, 80, 3
MODELS = {"resnet20": (32, 32, 3), "efficientnetv2": (8, 8, 1)}
MOVING = {"adapt": ("lookback=2-3", "resolution=20-30"), "muppet": ("resolution=1", "patience=1")}
TOLD = "told: "  # leads a line of stdout
KEPT = Path(__file__).parent / "results" / "ranks.jsonl"
# of a line or a report: what is of the machine and not of the run
UNLIKE = ("seconds", "images_per_second", "process", "tape", "saved")
# as any user, more ranks than cores, and ranks that wait let others work
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
Case = dict[str, str]


def cases() -> list[Case]:
    return [{"model": model, "method": method} for model in MODELS for method in METHODS]


def images(path: Path, shape: tuple[int, ...]) -> None:
    """A file of random bytes of ten classes, for `arrays:`."""
    rng = np.random.default_rng(20)
    X = rng.integers(0, 256, (IMAGES + TESTED, *shape), dtype=np.uint8)
    y = rng.integers(0, 10, len(X))
    np.savez(path, X=X[:IMAGES], y=y[:IMAGES], X_test=X[IMAGES:], y_test=y[IMAGES:])


def train(case: Case, folder: Path) -> list[str]:
    """The arguments of `intnet` that train a case, on the images of `folder`; the last is the run."""
    model, method = case["model"], case["method"]
    line = ["train", "--method", method, "--model", model, "--data", f"arrays:{folder / model}.npz"]
    line += ["--steps", str(STEPS), "--batch-size", str(BATCH)]
    line += [part for option in MOVING.get(method, ()) for part in ("--set", option)]
    return [*line, "--out", str(folder / f"{model} {method}")]


def mpirun(ranks: int, *own: str) -> list[str]:
    """`mpirun -n ranks python ..`, of the environment whose Python this is."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("mpirun", path=beside)
    if found is None:
        raise ConfigError("no mpirun: pip install 'intnet[mpi]'")
    return [found, "--bind-to", "none", "-n", str(ranks), sys.executable, *own]


def environment(threads: int) -> dict[str, str]:
    return {**os.environ, **SETTINGS, "NUMBA_NUM_THREADS": str(threads)}


def told(run: Path) -> dict[str, Any]:
    """What a run's folder holds that does not depend on the machine; what moved in it, in words."""
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    report = json.loads((run / "report.json").read_text())
    del report["run"]["data"]  # where it lay; its SHA-256 stands there too
    plain = [{key: value for key, value in one.items() if key not in UNLIKE} for one in [*lines, report]]
    widths = [line["layers"] for line in lines if line["kind"] == "precision"]
    words = [{name: one["WL"] for name, one in layers.items()} for layers in widths]
    return {
        "digest": report["state_sha256"],
        "rest": hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest(),
        "moved": sum(one != other for one, other in pairwise(words)),
        "maps": sum(line["kind"] == "map" for line in lines),
    }


def worker(jobs: list[list[str]]) -> None:
    """The runs of one call of `mpirun`, one after another; a line of stdout tells of each."""
    for job in jobs:
        if main(job):
            raise SystemExit(f"failed: intnet {' '.join(job)}")
        if together.writes():
            print(TOLD + json.dumps(told(Path(job[-1]))), flush=True)


def _done(sources: str) -> list[Row]:
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return [row for row in map(json.loads, lines) if row["sources"] == sources]


def _run(ranks: int | None, threads: int, missing: list[Case], sources: str) -> None:
    """Train them, on ranks or (None) in one process, and keep what came of each as soon as it is there."""
    left = iter(missing)
    with tempfile.TemporaryDirectory() as folder, KEPT.open("a", buffering=1) as kept:
        for model, shape in MODELS.items():
            images(Path(folder) / f"{model}.npz", shape)
        jobs = [train(case, Path(folder)) for case in missing]
        own = [*("-u", "-m", "bench.ranks"), json.dumps(jobs)]
        line = [sys.executable, *own] if ranks is None else mpirun(ranks, *own)
        with subprocess.Popen(line, env=environment(threads), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for text in process.stdout:
                if text.startswith(TOLD):
                    row = {**next(left), "ranks": ranks, "threads": threads, "sources": sources}
                    kept.write(json.dumps(row | json.loads(text.removeprefix(TOLD))) + "\n")
    if process.returncode:
        raise ChildProcessError(f"{ranks} ranks of {threads} threads ended with {process.returncode}")


def rows() -> list[Row]:
    KEPT.parent.mkdir(exist_ok=True)
    sources = definition.sources()
    for ranks, threads in [(None, 1), *((r, t) for t in THREADS for r in RANKS)]:
        known = [row for row in _done(sources) if (row["ranks"], row["threads"]) == (ranks, threads)]
        have = [{key: row[key] for key in ("model", "method")} for row in known]
        if missing := [case for case in cases() if case not in have]:
            _run(ranks, threads, missing, sources)
    found = _done(sources)
    return [_row(case, [row for row in found if case.items() <= row.items()]) for case in cases()]


def _row(case: Case, found: list[Row]) -> Row:
    (alone,) = [row for row in found if row["ranks"] is None]
    row = {**case, "moved": alone["moved"], "maps": alone["maps"], "digest": alone["digest"][:8]}
    for one in sorted(found, key=lambda one: (one["ranks"] or 0, one["threads"])):
        if one is not alone:
            alike = all(one[key] == alone[key] for key in ("digest", "rest"))
            row[f"{one['ranks']} x {one['threads']}"] = alike
    return row


def targets(rows: list[Row]) -> list[Row]:
    answers = [value for row in rows for value in row.values() if isinstance(value, bool)]
    what = f"of {len(answers)} runs on ranks, those unlike the run of one process"
    return [at_most(0, what, answers.count(False))]


if __name__ == "__main__":
    worker(json.loads(sys.argv[1]))
