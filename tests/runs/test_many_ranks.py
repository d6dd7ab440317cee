"""Runs under mpirun: folders, metrics and reports as one process writes them, resumes, losses, refusals."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from intnet.cli.main import main
from intnet.runs import run_folder
from tests.support.command import PYTHON, afresh, environment, last_line
from tests.support.machines import machines
from tests.support.mpi import command, mpirun, needs_mpi, settings

pytestmark = [pytest.mark.slow, needs_mpi]

RUN = ("--model", "mlp", "--data", "digits", "--limit", "400", "--batch-size", "112", "--seed", "3")
UNLIKE = ("seconds", "images_per_second", "process", "tape", "saved")  # of a report or a line: times, memory


def train(method: str, out: Path, *more: str) -> list[str]:
    return ["train", "--method", method, *RUN, *more, "--out", str(out)]


def lines(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without times."""
    text = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in UNLIKE} for line in text]


def report(run: Path) -> dict[str, Any]:
    return {k: v for k, v in json.loads((run / "report.json").read_text()).items() if k not in UNLIKE}


def told(folder: Path, *arguments: object) -> str:
    """What a command that ends well prints in this process, run in a folder."""
    status, out, err = afresh(folder, *map(str, arguments))
    assert status == 0, err
    return out


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, str]]:
    """Trains a run in this process, once: (method, options of the command) -> (its folder, its last line)."""

    @cache
    def trained(method: str, *more: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp("alone") / "one"
        return folder, last_line(told(folder.parent, *train(method, folder, *more)))

    return trained


@pytest.mark.parametrize(("ranks", "threads"), [(2, 2), (3, 1)])
@pytest.mark.parametrize("method", ["wageubn", "float32"])
def test_a_folder_is_that_of_one_process(
    method: str, ranks: int, threads: int, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    one, last = alone(method, "--epochs", "2")
    found = mpirun(ranks, *train(method, tmp_path / "many", "--epochs", "2"), threads=threads)
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == last
    sent = json.loads((tmp_path / "many" / "sent.json").read_text())
    assert (sent["ranks"], sent["steps"]) == (ranks, 8) and sent["all_bytes"] == sum(sent["bytes"].values())
    if method == "wageubn":  # of the mlp's layers of 64x64 the second: the first is float32
        assert sent["bytes"]["sums of int32"] == 4 * 64 * 64
    else:  # what is others' of a node or more, then the words that this rank added up: together one node
        assert sent["bytes"]["sums of float32"] > 2 * 4 * 64 * 64
    assert sent["float32_gradients"] == 4 * (2 * 64 * 64 + 10 * 64 + 10 + 2 * 2 * 64)
    assert f"{ranks} ranks; in a step rank 0 gave others {sent['all_bytes']:,.0f} bytes" in found.stderr
    assert lines(tmp_path / "many") == lines(one)
    assert report(tmp_path / "many") == report(one)
    assert told(tmp_path, "eval", "many") == told(one.parent, "eval", "one")


def test_commands_read_it_as_any_run_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that goes on after it too: inspected, verified against the definition, packed, checked."""
    net = ("--method", "wageubn", "--model", "mlp", "--data", "digits")
    small = (*net, "--limit", "64", "--batch-size", "64")
    found = mpirun(3, "train", *small, "--steps", "3", "--out", str(tmp_path / "many"))
    assert found.returncode == 0, found.stderr
    assert main(["train", *small, "--steps", "3", "--out", str(tmp_path / "one")]) == 0
    packs, said = [], []
    for name in ("many", "one"):
        run, pack = str(tmp_path / name), tmp_path / f"{name} pack"
        assert main(["golden", run, "--layer", "fc2", "--out", str(pack)]) == 0
        assert main(["check", str(pack), "--by", "spec"]) == 0
        packs.append(
            {path.relative_to(pack): path.read_bytes() for path in pack.rglob("*") if path.is_file()}
        )
        assert main(["verify", run]) == 0
        capsys.readouterr()
        assert main(["inspect", run, "--layer", "fc2"]) == 0
        said.append(capsys.readouterr().out.replace(run, "RUN"))
    assert packs[0] == packs[1] and len(packs[0]) > 5
    assert said[0] == said[1]


def test_a_run_goes_on_with_another_number_of_ranks(
    tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    """Six steps on three ranks, inside an epoch; then on two, then alone."""
    one, last = alone("wageubn", "--steps", "11")
    assert mpirun(3, *train("wageubn", tmp_path / "many", "--steps", "6")).returncode == 0
    found = mpirun(2, "resume", str(tmp_path / "many"), "--steps", "9")
    assert found.returncode == 0, found.stderr
    assert last_line(told(tmp_path, "resume", "many", "--steps", "11")) == last
    assert lines(tmp_path / "many") == lines(one)


def ranks_of(process: subprocess.Popen[str]) -> Iterator[psutil.Process]:
    for child in psutil.Process(process.pid).children(recursive=True):
        if "intnet" in child.cmdline() and "mpirun" not in child.cmdline()[0]:
            yield child


def started(line: list[str], run: Path, steps: int) -> subprocess.Popen[str]:
    """The command after so many lines of its metrics."""
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(line, env=settings(), **how)
    while not (run / "metrics.jsonl").exists() or (run / "metrics.jsonl").read_text().count("\n") < steps:
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(("moment", "killed"), [(2, 1), (5, 0)])
def test_a_killed_rank_ends_all_and_nothing_is_lost(
    moment: int, killed: int, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    run = tmp_path / "run"
    more = ("--steps", "60", "--checkpoint-every", "1")
    process = started(command(2, *train("float32", run, *more)), run, moment)
    numbers = {int(child.environ()["OMPI_COMM_WORLD_RANK"]): child.pid for child in ranks_of(process)}
    os.kill(numbers[killed], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert said.count(f"go on with: intnet resume {run}\n") == 1
    found = mpirun(3, "resume", str(run))
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == alone("float32", "--steps", "60")[1]


# A file that kills a rank at a moment of its own.
KILLER = """\
import os
import signal

def killed(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

if os.environ["OMPI_COMM_WORLD_RANK"] == "{rank}":
{moment}
"""
MOMENTS = {
    "its start": "    killed()",
    "the data": "    from intnet.runs import many_ranks; many_ranks.identity = killed",
    "a write": """\
    from intnet.runs import archive
    whole = archive.write_npz
    def half(stream, arrays):
        if (seen := archive.json.loads(arrays["meta.json"].tobytes())["meta"]["step"]) < 6:
            return whole(stream, arrays)
        stream.write(b"PK")
        killed()
    archive.write_npz = half""",
    "behind the last": "    from intnet.cli import terminal; terminal.sent = killed",
    "its end": "    from intnet.cli import together; together.leave = killed",
}


@pytest.mark.parametrize(
    ("moment", "rank", "kept"),
    [
        ("its start", 0, None),
        ("the data", 1, None),
        ("a write", 0, 4),
        ("behind the last", 0, 9),
        ("its end", 1, 9),
    ],
)
def test_one_line_says_what_is_kept_whenever_a_rank_is_killed(
    moment: str, rank: int, kept: int | None, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    killer, run = tmp_path / "killer.py", tmp_path / "run"
    killer.write_text(KILLER.format(rank=rank, moment=MOMENTS[moment]))
    line = train("float32", run, "--steps", "9", "--checkpoint-every", "2")
    found = mpirun(2, *line, "--import", str(killer))
    assert found.returncode == 128 + signal.SIGKILL
    ends, *more = [text for text in found.stderr.splitlines() if text.startswith("intnet")]
    lead = "intnet: all ranks end, one of them or mpirun was stopped: "
    if kept is None:
        assert ends == f"{lead}nothing is saved in {run} yet; give the command again"
    else:
        assert ends == f"{lead}{run} is saved at step {kept} of 9; go on with: intnet resume {run}"
        line = ["resume", str(run)]
    assert not more
    again = mpirun(3, *line)
    assert again.returncode == 0, again.stderr
    assert last_line(again.stdout) == alone("float32", "--steps", "9")[1]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT])
def test_a_signal_to_mpirun_stops_behind_a_step(number: int, tmp_path: Path) -> None:
    """SIGUSR1 it hands on; of SIGINT, which Ctrl-C is, it makes a SIGTERM and hears no rank any more."""
    run = tmp_path / "run"
    process = started(command(2, *train("wageubn", run, "--steps", "3000")), run, 6)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    done = [line["step"] for line in lines(run)][-1]
    assert run_folder.load(run).step == done < 3000
    if number == signal.SIGUSR1:
        assert process.returncode == 128 + number
        assert f"stopped: {run} is saved at step {done} of 3,000; go on with: intnet resume {run}\n" in said
    alone = run_folder.build("wageubn", {}, "mlp", "digits", 112, 3, 400)
    alone.train(done)
    assert run_folder.load(run).digest() == alone.digest()


def test_ranks_with_other_settings_are_refused(tmp_path: Path) -> None:
    """One whose data lie elsewhere, and are fewer, is named before a step is made."""
    one = command(1, *train("wageubn", tmp_path / "run", "--steps", "2"), each=[{}])
    other = command(1, *train("wageubn", tmp_path / "run", "--steps", "2", "--limit", "200"), each=[{}])
    both = [*one, ":", *other[other.index("-n") :]]
    found = subprocess.run(both, env=settings(), capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "rank 1 is not to train what rank 0 is" in found.stderr
    assert "limit is 200, not 400" in found.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("other", sorted(machines().keys() - {"one thread"}))
def test_ranks_on_other_processors_have_the_same_bits(
    other: str, tmp_path: Path, alone: Callable[..., tuple[Path, str]]
) -> None:
    """Kernels are compiled ahead: the rank that has its own would wait for the other's at full speed."""
    each = [{}, machines()[other]]
    code = "from intnet.machine import ahead; ahead.compile_kernels(ahead.group('wageubn', False))"
    subprocess.run([*PYTHON, "-c", code], env=environment(**each[1]), check=True)
    found = mpirun(2, *train("wageubn", tmp_path / "many", "--steps", "3"), each=each)
    assert found.returncode == 0, found.stderr
    assert last_line(found.stdout) == alone("wageubn", "--steps", "3")[1]


def test_other_commands_are_refused(tmp_path: Path) -> None:
    found = mpirun(2, "list")
    assert found.returncode != 0
    assert "run `intnet list` without it" in found.stderr
