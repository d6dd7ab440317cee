"""What does the trace cost a training step, without an observer and with one?

The step without any trace is that of a method whose `passes` and `store` do not ask for observers.
"""

import statistics
from collections.abc import Callable
from typing import Any

from bench.summary import Row, at_most
from bench.timing import medians, seconds
from bench.training import BATCH, run
from intnet import methods, trace
from intnet.exact.expressions import exact
from intnet.exact.quantize import quantize
from intnet.methods.wageubn import Wageubn
from intnet.numbers.rounding import STOCHASTIC, mode_code

QUESTION = f"wageubn step of resnet20, batch {BATCH}, under observers"
PAIRS = 60
NONE, BARE = "no observer", "no trace at all"
FEW, ALL = "records one layer", "records every path, counts widths"


class Untraced(Wageubn):
    """The same arithmetic; nothing asks for observers."""

    def passes(self, layer: Any, path: str, value: Any, operands: Any = None) -> Any:
        return value

    def store(
        self, layer: Any, path: str, value: Any, format: Any, rounding: str = "ties_even",
        stream: str = "", operands: Any = None,
    ) -> Any:  # fmt: skip
        name = f"{layer.name}/{path}"
        source, words = exact(value, name), None
        if mode_code(rounding) == STOCHASTIC:
            size = 1
            for axis in source.shape:
                size *= axis
            words = self.words(f"{layer.name}/{stream or path}", size)
        result = quantize(source, format, rounding=rounding, words=words, where=name)
        if result.status is not None and result.status.saturated:
            self.saturated[name] = self.saturated.get(name, 0) + result.status.saturated
        return result


def rows() -> list[Row]:
    """Steps take turns in pairs, and the median of the pairs' ratios counts: they differ by less than noise.

    Recorders come after, since their tensors leave the next step with cold memory.
    """
    calls = {NONE: run(methods.Wageubn()).train_step, BARE: run(Untraced()).train_step}
    for call in calls.values():
        call()
    pairs = [{name: seconds(call) for name, call in calls.items()} for _ in range(PAIRS)]
    times = {name: statistics.median(pair[name] for pair in pairs) for name in calls}
    ratio = statistics.median(pair[NONE] / pair[BARE] for pair in pairs)
    table = [{"what": NONE, "seconds": times[NONE], "x no trace": ratio}]
    table.append({"what": BARE, "seconds": times[BARE], "x no trace": 1.0})
    for name, seen in {
        FEW: [trace.Recorder("layer1.0.conv1/*")],
        ALL: [trace.Recorder(), trace.PathTable()],
    }.items():
        method = methods.Wageubn()
        step: Callable[[], Any] = run(method).train_step
        method.set(observers=seen)
        taken = medians({name: step})[name]
        table.append({"what": name, "seconds": taken, "x no trace": taken / times[BARE]})
    return table


def targets(rows: list[Row]) -> list[Row]:
    of = {row["what"]: row for row in rows}
    return [at_most(1.02, "step without an observer, times one without a trace", of[NONE]["x no trace"])]
