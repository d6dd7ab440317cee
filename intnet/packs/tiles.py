"""Partial sums of products, as trail ports: what an accumulator holds after each tile of K products.

    tiled(draft, {"x1": 16})     L/x1.partial of every weight layer L whose product is one of codes

    path   the sum of                                     over, the last one fastest
    x1     Wq[o,c,u,v] * x0[n, i*sh+u-ph, j*sw+v-pw, c]   u, v, c     (kh, kw, Cin of the group)
    e4     Wq[o,c,u,v] * e3[n, (i+ph-u)/sh, (j+pw-v)/sw, o]   u, v, o     (kh, kw, Cout of the group)
    gW     e3[n,i,j,o] * x0[n, i*sh+u-ph, j*sw+v-pw, c]   n, i, j     (N, H, W of the output)

A product with what lies outside, or between the steps of a stride, is 0 and keeps its place. The last tile
may be short; the last partial sum is the word of the accumulator, `explains` of the port. Sums are int64,
which hold every product of a layer. Defined by `spec/convolution.py: tiled_dot`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from intnet.errors import ConfigError, PackError
from intnet.numbers.qtensor import QTensor
from intnet.packs.layouts import TILE
from intnet.packs.ports import Draft, Filled, Json, Port, as_tensor, step_prefix, whole_number

ORDERS = {"x1": "kh, kw, Cin", "e4": "kh, kw, Cout", "gW": "N, H, W"}
OPERANDS = {"x1": ("Wq", "x0"), "e4": ("Wq", "e3"), "gW": ("e3", "x0")}
PARTIAL = "partial"
MOST = 1 << 26  # partial sums of a port


@dataclass(frozen=True)
class Product:
    """A product of a pack: the ports of its operands and of its result; the window that it walks by."""

    path: str
    operands: tuple[str, str]
    result: str
    shape: tuple[int, ...]  # of the weights
    window: Mapping[str, Any]


def products(
    ports: Mapping[str, Port], about: Mapping[str, Any], generator: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Product]]:
    """('fc2/x1', its product) of every weight layer in every step whose result is a port of codes.

    ports: by name; about, generator: of PACK.json. What is no sum of products of codes is left out, and so is
    one with a bias in it.
    """
    aliases: Mapping[str, str] = about.get("aliases", {})
    for step in about.get("replay", ()):
        ahead = step_prefix(step["step"], generator)
        for layer in step["layers"]:
            prefix = ahead + layer["layer"]
            names = [aliases.get(f"{prefix}/{one}", f"{prefix}/{one}") for one in OPERANDS[path]]
            result = next((name for name in _results(prefix, path) if name in ports), "")
            weights = ports.get(f"{prefix}/Wq")
            known = [ports.get(name) for name in (*names, result)]
            if weights is None or not all(port is not None and _is_codes(port) for port in known):
                continue
            if result == f"{prefix}/x1" and aliases.get(f"{prefix}/bq", f"{prefix}/bq") in ports:
                continue
            found = Product(path, (names[0], names[1]), result, weights.shape, layer["window"])
            yield f"{prefix}/{path}", found


def _results(prefix: str, path: str) -> Iterator[str]:
    """Where the sum may be: a term of what was rounded, or the path itself where nothing was."""
    first, second = OPERANDS[path]
    yield from (f"{prefix}/{path}.{first}_{second}", f"{prefix}/{path}")


def _is_codes(port: Port) -> bool:
    """Whether its elements are codes at one exponent, and where it is a result, the exact sum."""
    return port.encoding in ("integer", "flag") and isinstance(port.exponent, int)


def partial_port(name: str, product: Product, tile: int, codes: np.ndarray, of: Port) -> Filled:
    """The port of partial sums, a tile along its first axis."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    bits = max(of.bits, low.bit_length() + 1, high.bit_length() + 1)
    meaning = (
        f"behind each {tile} products of {product.operands[0]} and {product.operands[1]}, in the order "
        f"{ORDERS[product.path]}, the last one fastest; the last tile is {product.result}"
    )
    return whole_number(
        f"{name}.{PARTIAL}", "trail", codes, f"{TILE},{of.axes}", bits, exponent=of.exponent,
        meaning=meaning, explains=product.result,
    )  # fmt: skip


# -- a draft -------------------------------------------------------------------------------------


def tiled(draft: Draft, tiles: Mapping[str, int]) -> Draft:
    """The draft with the partial sums of these paths; PackError where there are none, or far too many."""
    if not tiles:
        return draft
    if "replay" not in draft.about:
        raise ConfigError("--tile is for a pack of layers: a unit's products are its own")
    held = {port.name: (port, codes) for port, codes in draft.ports}
    ports = {name: port for name, (port, _) in held.items()}
    made: list[Filled] = []
    for path, tile in tiles.items():
        if path not in OPERANDS or not 1 <= tile < 1 << 31:
            raise ConfigError(f"--tile {path}={tile}: give products a tile, of {', '.join(OPERANDS)}")
        before = len(made)
        for name, product in products(ports, draft.about, draft.generator, path):
            of, codes = held[product.result]
            operands = [_codes(*held[one]) for one in product.operands]
            shapes = of.shape, product.shape
            sums = partial_sums(path, operands[0], operands[1], shapes, dict(product.window), tile)
            if not np.array_equal(sums[-1], codes):
                raise PackError(f"{product.result} is no plain sum of products, so it has no parts")
            made.append(partial_port(name, product, tile, sums, of))
        if len(made) == before:
            raise PackError(
                f"{draft.name}: --tile {path}={tile}: no layer's {path} is a sum of products of codes alone "
                "(sums of float32 have no exact parts, and with a bias the last part is not the result)"
            )
    about = dict(draft.about) | {TILE: dict(tiles)}
    told = "-".join(f"{path}_{tile}" for path, tile in tiles.items())
    return replace(draft, name=f"{draft.name}-tile-{told}", ports=[*draft.ports, *made], about=about)


def _codes(port: Port, codes: np.ndarray) -> np.ndarray:
    value = as_tensor(port, codes.astype(np.int64), None)
    assert isinstance(value, QTensor)
    return value.codes.astype(np.int64)


# -- sums ----------------------------------------------------------------------------------------

Factors = tuple[np.ndarray, np.ndarray]  # (rows, terms) and (terms, columns)


def partial_sums(
    path: str, a: np.ndarray, b: np.ndarray, shapes: tuple[tuple[int, ...], tuple[int, ...]], window: Json,
    tile: int,
) -> np.ndarray:  # fmt: skip
    """int64 (tiles, shape of the result) of operands a and b, in the order of `OPERANDS`.

    shapes: of the result, and of the weights. Defined by `spec/convolution.py: tiled_dot`.
    PackError where they are too many.
    """
    result, weights = shapes
    by_weights, window = path != "gW", {"groups": 1} | dict(window)
    image = b if b.ndim == 4 else b[:, None, None, :]
    first = a if a.ndim == 4 else a[:, :, None, None] if by_weights else a[:, None, None, :]
    taps = weights if len(weights) == 4 else (*weights, 1, 1)
    terms = {
        "x1": prod(taps[1:]),
        "e4": prod(taps) // taps[1] // window["groups"],
        "gW": prod(first.shape[:3]),
    }
    count = -(-terms[path] // tile)
    if count * prod(result) > MOST:
        raise PackError(
            f"{count:,} tiles of {prod(result):,} sums are more than {MOST:,} words: give a larger tile than "
            f"{tile}, or fewer images"
        )
    places = first.shape[1:3] if not by_weights else result[1:3] if len(result) == 4 else (1, 1)
    sides = zip(places, taps[2:], window["stride"], window["padding"], image.shape[1:3], strict=True)
    rows, columns = (
        [_at(np.arange(many), tap, stride, ahead, length, path == "e4") for tap in range(kernel)]
        for many, kernel, stride, ahead, length in sides
    )
    factors = _factors(path, first, _seen(image, rows, columns), window["groups"])
    running = np.stack([_running(left, right, tile) for left, right in factors])
    return np.moveaxis(running, 0, 2 if by_weights else 1).reshape(count, *result)


def _running(left: np.ndarray, right: np.ndarray, tile: int) -> np.ndarray:
    """(tiles, rows, columns): left @ right, summed up to the end of each tile of terms."""
    starts = range(0, left.shape[1], tile)
    return np.cumsum([left[:, at : at + tile] @ right[at : at + tile] for at in starts], axis=0)


def _at(place: np.ndarray, tap: int, stride: int, ahead: int, size: int, back: bool) -> np.ndarray:
    """Where each place finds its operand at a tap, on the way forward or back; -1 where that is outside, or
    between the steps of a stride.
    """
    index, rest = np.divmod(place + ahead - tap, stride) if back else (place * stride + tap - ahead, 0)
    return np.where((rest == 0) & (index >= 0) & (index < size), index, -1)


def _seen(values: np.ndarray, rows: list[np.ndarray], columns: list[np.ndarray]) -> np.ndarray:
    """(N, h, w, kh, kw, C): values at rows[u], columns[v] of each tap; 0 where an index is below 0."""
    taps = []
    for i in rows:
        for j in columns:
            inside = (i >= 0)[:, None] & (j >= 0)[None, :]
            taps.append(np.where(inside[:, :, None], values[:, i][:, :, j], 0))
    made = np.stack(taps, axis=3)
    return made.reshape(*made.shape[:3], len(rows), len(columns), made.shape[-1])


def _factors(path: str, first: np.ndarray, seen: np.ndarray, groups: int) -> Iterator[Factors]:
    """Those of each group; first: the weights, or of gW the error."""
    outputs = np.split(first, groups, axis=-1 if path == "gW" else 0)
    for mine, own in zip(outputs, np.split(seen, groups, axis=-1), strict=True):
        if path == "gW":
            terms = prod(mine.shape[:3])
            yield mine.reshape(terms, -1).T, np.moveaxis(own, -1, 3).reshape(terms, -1)
        else:
            terms = prod(own.shape[3:])
            order = (2, 3, 1, 0) if path == "x1" else (2, 3, 0, 1)
            yield own.reshape(-1, terms), mine.transpose(order).reshape(terms, -1)
