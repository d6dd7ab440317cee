"""Compile the kernels of a training before its first step, on all cores, each in one process only.

Numba compiles a kernel when it is first called, one after another on one core. `kernels.json` lists what the
first steps of each method call, by groups: a network with convolutions or without. Worker processes
compile file after file into the cache, from where the step then loads them. A list that is incomplete costs
time alone: what it lacks is compiled when it is called. `python -m bench.kernels` writes it.
"""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core.errors import NumbaError

from intnet.machine import jit, words

LIST = Path(__file__).with_name("kernels.json")
_WORKER = [sys.executable, "-m", "intnet.machine.ahead"]
_PIPES: dict[str, Any] = {
    "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True
}  # fmt: skip
Moved = Callable[[int, int], None]  # how many kernels of how many are there


def group(method: str, convolves: bool) -> str:
    """The name of a group of `kernels.json`."""
    return f"{method} {'convolutions' if convolves else 'dense'}"


@cache
def listed() -> dict[str, list[list[Any]]]:
    """By group, the kernels that this processor can have: [name, seconds, types].

    The list is of one with vpdpbusd; on others products of 8 bits are made otherwise, and not ahead.
    """
    whole = json.loads(LIST.read_text())
    groups = {name: [whole["kernels"][i] for i in places] for name, places in whole["groups"].items()}
    return {
        name: [entry for entry in entries if words.FOURS or not _by_fours(*entry)]
        for name, entries in groups.items()
    }


def _by_fours(name: str, _: float, kinds: Sequence[Any]) -> bool:
    """Whether a kernel reads words of four 8-bit codes: where no instruction does, LLVM stops the process."""
    return name.startswith("ops.") and any(kind[:1] == ["uint32"] for kind in kinds if isinstance(kind, list))


# --- types as JSON ------------------------------------------------------------------------------


def described(kind: Any) -> Any:
    """A type of Numba's as JSON.

    A scalar is its name, an array [dtype, dimensions, layout, writable], a tuple {class or "": types}.
    """
    if isinstance(kind, types.Array):
        return [str(kind.dtype), kind.ndim, kind.layout, kind.mutable]
    if isinstance(kind, types.BaseTuple):
        made = getattr(kind, "instance_class", None)
        parts: Any = kind  # Numba's tuples of types are iterable, without saying so
        return {f"{made.__module__}.{made.__qualname__}" if made else "": [described(part) for part in parts]}
    return str(kind)


def typed(text: Any) -> Any:
    """The type that `described` describes."""
    if isinstance(text, str):
        return types.boolean if text == "bool" else getattr(types, text)
    if isinstance(text, list):
        dtype, dimensions, layout, writable = text
        return types.Array(typed(dtype), dimensions, layout, readonly=not writable)
    ((name, parts),) = text.items()
    return types.BaseTuple.from_types([typed(part) for part in parts], _found(name) if name else None)


def _found(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


# --- compiling ----------------------------------------------------------------------------------


def show(done: int, of: int) -> None:
    """How far it is, on stderr, where a person looks on: on a terminal, or in a notebook."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        text = f"\rcompiling kernels, once on this machine: {done} of {of}"
        print(text, end="\n" if done == of else "", file=sys.stderr, flush=True)


def compile_kernels(*groups: str, moved: Moved = show) -> None:
    """Have the kernels of groups in the cache; at once where they were asked for before.

    The first process that asks does it. Others meanwhile, and later ones where it was killed, compile
    what they call and do not find.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    jit.start_threads()  # which kernels are linked with; ahead of the mark, as it may be refused
    new = [which for which in groups if listed().get(which) and _marked(which)]
    entries = {json.dumps(entry): entry for which in new for entry in listed()[which]}
    if entries:
        _compile_all(list(entries.values()), moved)


def _marked(which: str) -> bool:
    """Whether this process is the first that asks for a group: it leaves a mark in the cache."""
    mark = Path(jit.FOLDER) / f"ahead-{_processor()}-{which.replace(' ', '-')}"
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch(exist_ok=False)
        return True
    return False


def _processor() -> str:
    """What compiled code depends on beside the sources, in few letters."""
    given = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")]
    host = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return hashlib.sha256("\n".join(given + host).encode()).hexdigest()[:12]


def by_file(entries: Sequence[Sequence[Any]]) -> list[list[Sequence[Any]]]:
    """Entries by their kernels' files, those that take longest first.

    Kernels of one file share rules, which are compiled once a process: they are for one process.
    """
    files: dict[str, list[Sequence[Any]]] = {}
    for entry in entries:
        files.setdefault(entry[0].rpartition(".")[0], []).append(entry)
    return sorted(files.values(), key=lambda share: -sum(seconds for _, seconds, _ in share))


def _compile_all(entries: Sequence[Sequence[Any]], moved: Moved) -> None:
    """Compile all entries, here and in workers: who is done takes the next file."""
    workers = max(1, min(numba.config.NUMBA_NUM_THREADS, len(entries) // 4))  # type: ignore[attr-defined]
    done, lock = [0], threading.Lock()
    left = deque(by_file(entries))

    def shares() -> Iterator[list[Sequence[Any]]]:
        with suppress(IndexError):
            while True:
                yield left.popleft()

    def count() -> None:
        with lock:
            done[0] += 1
            moved(done[0], len(entries))

    def feed(worker: subprocess.Popen[str]) -> None:
        """Hand files to a worker as long as there are any, and it lives."""
        assert worker.stdin is not None and worker.stdout is not None
        with suppress(BrokenPipeError), worker.stdin:
            for share in shares():
                worker.stdin.write(json.dumps(share) + "\n")
                worker.stdin.flush()
                for _ in share:
                    if not worker.stdout.readline():
                        return
                    count()

    moved(0, len(entries))
    with ExitStack() as stack:
        feeders = []
        for _ in range(1, workers):
            worker = stack.enter_context(subprocess.Popen(_WORKER, **_PIPES))
            stack.callback(worker.kill)
            feeders.append(threading.Thread(target=feed, args=(worker,)))
            feeders[-1].start()
        for share in shares():
            _compile_share(share, count)
        for feeder in feeders:
            feeder.join()


def _compile_share(share: Sequence[Sequence[Any]], told: Callable[[], None]) -> None:
    jit.start_threads()
    for name, _, kinds in share:
        with suppress(AttributeError, TypeError, NumbaError):  # a kernel that has changed since the list
            kernel = _found(f"intnet.{name}")
            getattr(kernel, "compiled", kernel).compile(tuple(map(typed, kinds)))
        told()


if __name__ == "__main__":
    for line in sys.stdin:
        _compile_share(json.loads(line), lambda: print(flush=True))
