"""One digest, everywhere: threads, instruction sets, with and without the compiler, in one go or resumed.

The digests below are known answers: a change of them is a change of what a run computes, on every
machine, and needs a reason.
"""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import PYTHON, ROOT, environment, intnet, last_line, signalled
from tests.support.machines import machines

pytestmark = pytest.mark.slow

# 20 steps of resnet8 on digits under wageubn, batch 64, seed 1
RESNET8 = "ba3ad4d5250f5a44241da3d9737c90963f4d4e1d6f36addbb42b62cda5541f09"
# 3 steps of mlp on digits, batch 16, seed 1
MLP = {
    "wageubn": "9a02264ec8cc687a090e9e77fbc19e372d851a703429ed8222d49125b9fa62b4",
    "float32": "e0665bef58af3bd606704256e727f523167eaa7bd4006f3182e79bf8eebeccd0",
    "banner": "1c5f533f631af1cec6bc0e5a7c49df496b49fcc582eb2db86b5b1b4c6b77d75c",
}

SCRIPT = """
import sys
from intnet.runs import run_folder
method, model, steps, batch = sys.argv[1:]
run = run_folder.build(method, {}, model, "digits", int(batch), 1)
run.train(int(steps))
print(run.digest())
"""
# 3 steps of mlp on 4 digits, batch 2, seed 1: the second fills AdaPT's lookbacks, an epoch moves MuPPET on,
# and DYNASTY has a map (digest, then WL and FL of fc2, the level, or how many blocks of fc2 have 0 .. 8 bits)
MOVING = {
    "adapt": "4c1604cdb868e00a17207ea19adf9b72893b8a7a9de867ba7ef872e19f7ae46c 32 28",
    "muppet": "3f72d17b60c0e9ddc40157c5586ca7c629fbe4590558edada2f382cd35f00787 1",
    "dynasty": "5d6539e949435c01f792c4dd21f10ae72c3d1db12590d30f600844250b62ed92 0 141 46 53 16",
}
MOVING_SCRIPT = """
import sys
import numpy as np
from intnet.runs import run_folder
for method in sys.argv[1].split(","):
    options = {
        "adapt": {"eps": 0.1, "accs": 2, "lr": 0.1, "l2": 1e-4},
        "muppet": {"resolution": 1, "patience": 1},
        "dynasty": {"bits": 3, "gamma": 0.25},
    }[method]
    run = run_folder.build(method, options, sys.argv[2], "digits", int(sys.argv[4]), 1, limit=4)
    for layer in run.model.all_layers():
        if "window" in layer.buffers:
            layer.buffers["window"].codes[2] = 23
        if "precision" in layer.buffers:
            layer.buffers["precision"].codes[:] = 16, 12
    if method == "muppet":
        run.method.state["diversities"] = np.array([100], np.float32)
    run.train(int(sys.argv[3]))
    state = run.state()
    if method == "dynasty":
        bits = 2 * np.floor(state["fc2.weight.b"].astype(np.float64) / 2 + 0.5)
        print(run.digest(), *np.bincount((bits // 2).astype(int).reshape(-1), minlength=5))
    else:
        print(run.digest(), *state["method/level" if method == "muppet" else "fc2.precision"].codes.tolist())
"""
# 4 steps of mlp on 4 digits, batch 2, seed 1, with every lever of float masters
LEVERS = {
    "float32": "a06a836ef76cf6c8ac9191fc14885f424bafe10c62dfd6f504426451067b4739",
    "adapt": "387f51fc018ccd1401b297e111489bd4d83299597cb84feae8e8c747c0c17764",
    "muppet": "cac3a891f07f2c9797d2dbf24f9102c711e1610c59e1fe463dc1f6325ebe5bfb",
    "dynasty": "fed3904119fa2ff5b4ac6b7644c790f49b47a4559b4e3b19af1bcb0d034e7256",
}
# method saved: 20 steps of resnet8 on digits, batch 64; 3 steps of mlp, batch 16; seed 1
SAVED = {
    "resnet8": "110455599b54aa615f49817ebee69f239ee3f9dbeda1693cf0d4b3e34ea6739b",
    "mlp": "295b6a07f7affae0e41dacf565983e633b0a328d6bb86400a7b9295af3b2979e",
}
SAVED_SCRIPT = """
import sys
from intnet.runs import run_folder
method, model, steps, batch = sys.argv[1:]
options = {"bits": "2/4", "bucket": 64, "codec@layer2.0.conv1": "levels"}
if model == "mlp":
    options = {"bits": "2/6", "bucket": 64, "codec@fc2": "levels", "norm": "l2"}
run = run_folder.build(method, options, model, "digits", int(batch), 1)
run.train(int(steps))
print(run.digest())
"""
LEVERS_SCRIPT = """
import sys
from intnet.runs import run_folder
for method in sys.argv[1].split(","):
    options = {
        "optimizer": "adamw", "weight_decay": 0.1, "warmup": 0.5, "cosine": 1.5, "clip": 0.25,
        "label_smoothing": 0.1,
    }
    run = run_folder.build(method, options, sys.argv[2], "digits", int(sys.argv[4]), 1, limit=4)
    run.train(int(sys.argv[3]))
    print(run.digest())
"""
INSTRUCTIONS = """
from tests.support.machines import uses_fma_instruction
print(uses_fma_instruction())
"""
# processors to compile for, as environment variables
PROCESSORS = {name: changes for name, changes in machines().items() if "NUMBA_CPU_NAME" in changes}


def answers(script: str, method: str, model: str, steps: int, batch: int, **variables: str) -> list[str]:
    """What `script` prints in a process of its own, under changed environment variables."""
    command = [*PYTHON, "-c", script, method, model, str(steps), str(batch)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(**variables), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_any_number_of_threads(threads: str) -> None:
    assert answers(SCRIPT, "wageubn", "resnet8", 20, 64, NUMBA_NUM_THREADS=threads) == [RESNET8]


@pytest.mark.parametrize(
    "variables", [{"NUMBA_NUM_THREADS": "2"}, PROCESSORS["x86-64"], {"NUMBA_DISABLE_JIT": "1"}], ids=str
)
def test_methods_whose_widths_move(variables: dict[str, str]) -> None:
    got = answers(MOVING_SCRIPT, ",".join(MOVING), "mlp", 3, 2, **variables)
    assert " ".join(got) == " ".join(MOVING.values())


@pytest.mark.parametrize(
    "variables", [{"NUMBA_NUM_THREADS": "2"}, PROCESSORS["x86-64"], {"NUMBA_DISABLE_JIT": "1"}], ids=str
)
def test_levers_of_float_masters(variables: dict[str, str]) -> None:
    assert answers(LEVERS_SCRIPT, ",".join(LEVERS), "mlp", 4, 2, **variables) == list(LEVERS.values())


@pytest.mark.parametrize(
    "variables", [{"NUMBA_NUM_THREADS": "1"}, {"NUMBA_NUM_THREADS": "2"}, *PROCESSORS.values()], ids=str
)
def test_saved_activations(variables: dict[str, str]) -> None:
    assert answers(SAVED_SCRIPT, "saved", "resnet8", 20, 64, **variables) == [SAVED["resnet8"]]


@pytest.mark.parametrize("jit", ["compiled", "interpreted"])
def test_saved_activations_without_the_compiler(jit: str) -> None:
    disable = "1" if jit == "interpreted" else "0"
    assert answers(SAVED_SCRIPT, "saved", "mlp", 3, 16, NUMBA_DISABLE_JIT=disable) == [SAVED["mlp"]]


@pytest.mark.parametrize("cpu", PROCESSORS)
def test_any_instruction_set(cpu: str) -> None:
    """The tests above run what this machine has; here kernels really use FMA, and really do not."""
    got = answers(SCRIPT + INSTRUCTIONS, "wageubn", "resnet8", 20, 64, **PROCESSORS[cpu])
    assert got == [RESNET8, str(cpu == "haswell")]


def test_killed_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    status, _ = signalled(
        signal.SIGKILL, folder, 8, "train", "--method", "wageubn", "--model", "resnet8", "--data", "digits",
        "--steps", 20, "--batch-size", 64, "--seed", 1, "--checkpoint-every", 3, "--out", folder,
    )  # fmt: skip
    assert status == -signal.SIGKILL
    assert last_line(intnet("resume", folder).stdout) == f"state sha256: {RESNET8}"


def test_levers_killed_and_resumed(tmp_path: Path) -> None:
    """Killed in the midst of the warmup and of a wave; both runs end with the same digest."""
    lines = []
    for name, kills in (("whole", ()), ("killed", (4, 14))):
        folder = tmp_path / name
        command: tuple[object, ...] = (
            "train", "--method", "adapt", "--model", "mlp", "--data", "digits", "--steps", 40,
            "--batch-size", 256, "--checkpoint-every", 3, "--set", "optimizer=adamw", "--set", "lr=0.001",
            "--set", "warmup=1", "--set", "cosine=1.5", "--set", "clip=0.5", "--set", "accs=2",
            "--out", folder,
        )  # fmt: skip
        for logged in kills:
            assert signalled(signal.SIGKILL, folder, logged, *command)[0] == -signal.SIGKILL
            command = ("resume", folder)
        lines.append(last_line(intnet(*command).stdout))
    assert lines[0] == lines[1] and lines[0].startswith("state sha256: ")


@pytest.mark.parametrize("method", sorted(MLP))
@pytest.mark.parametrize("jit", ["compiled", "interpreted"])
def test_with_and_without_the_compiler(method: str, jit: str) -> None:
    disable = "1" if jit == "interpreted" else "0"
    assert answers(SCRIPT, method, "mlp", 3, 16, NUMBA_DISABLE_JIT=disable) == [MLP[method]]
