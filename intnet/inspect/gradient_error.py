"""How wrong a gradient is: what a layer's operands give in exact arithmetic, against what the method made.

    found(layer, events, operands) -> a Compared for each gradient and error of the layer, in the step's order

The operands of the exact g* are those ahead of their quantizers, each the float32 nearest to its exact
value: what float32 training would multiply. Products of float32 are exact in float64, `math.fsum` adds them
exactly and rounds once. So, of all elements that are compared (of many, evenly spread ones within PRODUCTS),

    cosine      <g, g*> / (|g| |g*|)                        1: the same direction
    length      |g| / |g*|                                  CQ and AdaPT's gWn have one of their own
    mean error  (mean(g) / length - mean(g*)) / rms(g*)     0: no bias, both at the same length

gW and gb are of x0 and e3 ahead of rounding, e4 of W and e3, gbeta and ggamma of e1 and of x1 normalized in
float64 by its variance; e3 and e0 are compared with what they were ahead of their own rounding.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np

from intnet.exact.blocks.buckets import Packed
from intnet.exact.expressions import Exact, exact
from intnet.inspect.measure import codes_of
from intnet.inspect.operands import Operands
from intnet.layers import Layer
from intnet.methods.method import to_float32
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor

PRODUCTS = 1 << 21  # of a path: more are not added up
EPS = 1e-5  # of batch norm in float32
WEIGHTS = ("Wq", "Wb", "W")
STAGES = {"gW": ("gW", "gWq", "gWn"), "gb": ("gb", "gbq")}
STAGES |= {"gbeta": ("gbeta", "gbetaq"), "ggamma": ("ggamma", "ggammaq")}


@dataclass(frozen=True)
class Compared:
    """path: what the method made; made_of: of what g* is; elements: compared, of so many.

    cosine, length and mean_error are None where g* or g has no length.
    """

    path: str
    made_of: str
    elements: int
    of: int
    cosine: float | None
    length: float | None
    mean_error: float | None


Sums = Callable[[int], list[float]]  # the products whose sum element k of g* is
Wanted = tuple[str, int, int, Sums]  # made of, elements, products of one, the products


def found(layer: Layer, events: Mapping[str, Event], operands: Operands) -> list[Compared]:
    """Of one layer; `events` by 'layer/path'."""
    own = {event.path: event for event in events.values() if event.layer == layer.name}
    if layer.takes_weight:
        wanted = dict(_of_products(layer, own, operands))
    elif layer.normalizes:
        wanted = dict(_of_norm(own, events, operands))
    else:
        wanted = {}
    lines = []
    for path, event in own.items():
        base = next((name for name, stages in STAGES.items() if path in stages), path)
        if base in wanted:
            lines.append(_compared(event, *wanted[base]))
        elif path in ("e0", "e3"):
            lines.append(_compared(event, f"{path} ahead of rounding", *_itself(unrounded(event, operands))))
    return lines


def _itself(values: np.ndarray) -> tuple[int, int, Sums]:
    flat = values.reshape(-1)
    return flat.size, 1, lambda k: [float(flat[k])]


def _compared(event: Event, made_of: str, size: int, products: int, sums: Sums) -> Compared:
    count = min(size, max(1, PRODUCTS // max(products, 1)))
    chosen = [k * size // count for k in range(count)]
    return compared(event.path, made_of, [fsum(sums(k)) for k in chosen], values(event)[chosen], size)


def compared(path: str, made_of: str, ideal: list[float], made: np.ndarray, of: int) -> Compared:
    """The module's three numbers of g* and g."""
    g = [float(value) for value in made]
    squares, ideals = fsum(v * v for v in g), fsum(v * v for v in ideal)
    if not (squares > 0 and ideals > 0):
        return Compared(path, made_of, len(g), of, None, None, None)
    length = sqrt(squares / ideals)
    cosine = fsum(a * b for a, b in zip(g, ideal, strict=True)) / sqrt(squares) / sqrt(ideals)
    bias = (fsum(g) / length - fsum(ideal)) / len(g) / sqrt(ideals / len(g))
    return Compared(path, made_of, len(g), of, min(1.0, max(-1.0, cosine)), length, bias)


def values(event: Event) -> np.ndarray:
    """float64 of what readers of a path get, flat: exact where 53 bits hold it."""
    result = event.result
    if isinstance(result, Packed):
        return result.load().astype(np.float64).reshape(-1)
    codes = codes_of(result).astype(np.float64)
    whole = isinstance(result, Exact) and not np.any(np.asarray(result.den) != 1)
    if whole or isinstance(result, QTensor):
        codes = np.ldexp(codes, result.exponent)
    return codes.reshape(-1)


def unrounded(event: Event, operands: Operands) -> np.ndarray:
    """float64 of float32 values: a path ahead of the quantizer that made its codes, wherever that was."""
    source = operands.maker(event).source
    if isinstance(source, QTensor):
        source = exact(source)
    return np.asarray(to_float32(source)).astype(np.float64)


# -- products -----------------------------------------------------------------------------------


def _of_products(layer: Any, own: Mapping[str, Event], operands: Operands) -> Iterator[tuple[str, Wanted]]:
    """gW, gb and e4 of a convolution; linear is one of images of one pixel."""
    error = next((own[path] for path in ("e3w", "e3") if path in own), None)
    weight = next((own[path] for path in WEIGHTS if path in own), None)
    if error is None or weight is None or "x0" not in own:
        return
    x, e, w = (_as_images(unrounded(event, operands)) for event in (own["x0"], error, weight))
    w = w.transpose(0, 3, 1, 2) if len(layer.weight.shape) == 2 else w
    groups = getattr(layer, "groups", 1)
    outputs, rows, columns = e.shape[3] // groups, e.shape[1], e.shape[2]
    (sh, sw), (ph, pw) = layer.stride, layer.padding
    padded = np.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)))

    def of_weight(k: int) -> list[float]:
        o, c, ky, kx = np.unravel_index(k, w.shape)
        channel = o // outputs * w.shape[1] + c
        seen = padded[:, ky : ky + sh * (rows - 1) + 1 : sh, kx : kx + sw * (columns - 1) + 1 : sw, channel]
        products: list[float] = (seen * e[..., o]).reshape(-1).tolist()
        return products

    def of_input(k: int) -> list[float]:
        n, y, z, channel = np.unravel_index(k, x.shape)
        group, c = divmod(int(channel), w.shape[1])
        outs = slice(group * outputs, (group + 1) * outputs)
        products: list[float] = []
        for ky in range(w.shape[2]):
            for kx in range(w.shape[3]):
                (row, up), (column, left) = divmod(y + ph - ky, sh), divmod(z + pw - kx, sw)
                if not (up or left) and 0 <= row < rows and 0 <= column < columns:
                    products += (e[n, row, column, outs] * w[outs, c, ky, kx]).tolist()
        return products

    yield "gW", ("e3 x0^T, both ahead of rounding", w.size, e[..., 0].size, of_weight)
    yield "e4", ("W^T e3, both ahead of rounding", x.size, outputs * w.shape[2] * w.shape[3], of_input)
    yield (
        "gb",
        ("sum(e3), ahead of rounding", e.shape[3], e[..., 0].size, lambda k: e[..., k].reshape(-1).tolist()),
    )


def _as_images(x: np.ndarray) -> np.ndarray:
    return x[:, None, None, :] if x.ndim == 2 else x


# -- batch norm ---------------------------------------------------------------------------------


def _of_norm(
    own: Mapping[str, Event], events: Mapping[str, Event], operands: Operands
) -> Iterator[tuple[str, Wanted]]:
    if "e1" not in own or "mu" not in own:
        return
    e = values(own["e1"]).reshape(-1, own["e1"].result.shape[-1])
    yield "gbeta", ("sum(e1)", e.shape[1], e.shape[0], lambda k: e[:, k].tolist())
    read = _read(own["mu"], events, operands)
    if read is not None and read.result.shape == own["e1"].result.shape:
        x = values(read).reshape(e.shape)
        x = (x - x.mean(0)) / np.sqrt(x.var(0) + EPS)
        yield (
            "ggamma",
            ("sum(e1 * x1 normalized)", e.shape[1], e.shape[0], lambda k: (e[:, k] * x[:, k]).tolist()),
        )


def _read(mu: Event, events: Mapping[str, Event], operands: Operands) -> Event | None:
    """The x1 that a batch norm read: what entered mu, or where nobody says that the last one ahead of it."""
    for one in operands.inputs(mu):
        if one.path == "x1":
            return events[f"{one.layer}/{one.path}"]
    order = list(events.values())
    ahead = order[: next(k for k, one in enumerate(order) if one is mu)]
    return next((one for one in reversed(ahead) if one.path == "x1"), None)
