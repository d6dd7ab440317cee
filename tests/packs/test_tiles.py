"""Partial sums of products: against sums written out, by the definition, at every window, in whole packs."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from intnet.errors import ConfigError, PackError
from intnet.packs import check, layers, pack, units
from intnet.packs.by_spec import recompute
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.ports import Draft
from intnet.packs.tiles import ORDERS, partial_sums, tiled
from intnet.runs import run_folder
from intnet.spec import convolution as conv
from intnet.spec.tensor import Tensor
from tests.support.plain_pack import Plain

WINDOWS = [  # kernel, stride, padding, groups
    ((1, 1), (1, 1), (0, 0), 1),
    ((3, 3), (1, 1), (1, 1), 1),
    ((3, 2), (2, 1), (0, 1), 1),
    ((2, 3), (2, 3), (1, 2), 2),
    ((1, 1), (2, 2), (0, 0), 4),
]
N, H, W, C, OUT = 2, 5, 4, 4, 8


def sums_of(terms: list[int], tile: int) -> list[int]:
    """The running sums of a list of products."""
    out, total = [], 0
    for k, term in enumerate(terms, 1):
        total += term
        if k % tile == 0 or k == len(terms):
            out.append(total)
    return out


class World:
    """Random codes of a convolution, and every product of it in its order, by the module's table."""

    def __init__(
        self, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], groups: int
    ):
        self.kernel, self.stride, self.padding, self.groups = kernel, stride, padding, groups
        self.out = tuple(
            (size + 2 * pad - k) // step + 1
            for size, pad, k, step in zip((H, W), padding, kernel, stride, strict=True)
        )
        self.cg, self.og = C // groups, OUT // groups
        source = random.Random(str((kernel, stride, padding, groups)))
        self.shapes = {"x0": (N, H, W, C), "Wq": (OUT, self.cg, *kernel), "e3": (N, *self.out, OUT)}
        self.held = {
            name: np.array([source.randrange(-128, 128) for _ in range(prod(shape))]).reshape(shape)
            for name, shape in self.shapes.items()
        }
        self.results = {"x1": self.shapes["e3"], "e4": self.shapes["x0"], "gW": self.shapes["Wq"]}

    def x(self, n: int, i: int, j: int, u: int, v: int, c: int) -> int:
        """x0[n, i*sh+u-ph, j*sw+v-pw, c], 0 outside."""
        y, x = i * self.stride[0] + u - self.padding[0], j * self.stride[1] + v - self.padding[1]
        return int(self.held["x0"][n, y, x, c]) if 0 <= y < H and 0 <= x < W else 0

    def e(self, n: int, i: int, j: int, u: int, v: int, o: int) -> int:
        """e3[n, (i+ph-u)/sh, (j+pw-v)/sw, o], 0 where that is none."""
        (y, below), (x, left) = (
            divmod(at + pad - k, step)
            for at, pad, k, step in zip((i, j), self.padding, (u, v), self.stride, strict=True)
        )
        inside = not below and not left and 0 <= y < self.out[0] and 0 <= x < self.out[1]
        return int(self.held["e3"][n, y, x, o]) if inside else 0

    def terms(self, path: str, place: tuple[int, ...]) -> list[int]:
        """The products of one element, the last index fastest."""
        w, (kh, kw) = self.held["Wq"], self.kernel
        if path == "x1":
            n, i, j, o = place
            first = o // self.og * self.cg
            runs = product(range(kh), range(kw), range(self.cg))
            return [int(w[o, c, u, v]) * self.x(n, i, j, u, v, first + c) for u, v, c in runs]
        if path == "e4":
            n, i, j, c = place
            first = c // self.cg * self.og
            runs = product(range(kh), range(kw), range(first, first + self.og))
            return [int(w[o, c % self.cg, u, v]) * self.e(n, i, j, u, v, o) for u, v, o in runs]
        o, c, u, v = place
        first = o // self.og * self.cg
        runs = product(range(N), range(self.out[0]), range(self.out[1]))
        return [int(self.held["e3"][n, i, j, o]) * self.x(n, i, j, u, v, first + c) for n, i, j in runs]


@pytest.mark.slow
@pytest.mark.parametrize("tile", [1, 3, 8, 1000])
@pytest.mark.parametrize("path", ORDERS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_sums_behind_each_tile_written_out(window: tuple, path: str, tile: int) -> None:
    world = World(*window)
    names = {"x1": ("Wq", "x0"), "e4": ("Wq", "e3"), "gW": ("e3", "x0")}[path]
    shape = world.results[path]
    made = partial_sums(
        path, world.held[names[0]], world.held[names[1]], (shape, world.shapes["Wq"]),
        {"stride": window[1], "padding": window[2], "groups": window[3]}, tile,
    )  # fmt: skip
    want = [sums_of(world.terms(path, place), tile) for place in product(*map(range, shape))]
    assert made.shape == (len(want[0]), *shape)
    assert made.reshape(len(want[0]), -1).T.tolist() == want


@pytest.mark.parametrize("path", ORDERS)
def test_the_definition_says_the_same(path: str) -> None:
    window = WINDOWS[3]
    world = World(*window)
    x, w, e = (Tensor(world.shapes[k], world.held[k].ravel().tolist()) for k in ("x0", "Wq", "e3"))
    how = (*window[1:], conv.tiled_dot(5))
    found = {
        "x1": lambda: conv.conv2d(x, w, *how),
        "e4": lambda: conv.conv2d_input_grad(e, w, x.shape, *how),
        "gW": lambda: conv.conv2d_weight_grad(e, x, w.shape, *how),
    }[path]()
    want = [sums_of(world.terms(path, place), 5) for place in product(*map(range, world.results[path]))]
    assert found.values == want


@pytest.mark.parametrize("tile", [1, 2, 3, 4, 9])
def test_a_dot_product_in_tiles(tile: int) -> None:
    a, b = [3, -1, 4, 1, -5, 9, 2], [2, 7, -1, 8, 2, 8, 1]
    assert conv.tiled_dot(tile)(a, b) == sums_of([x * y for x, y in zip(a, b, strict=True)], tile)
    assert conv.tiled_dot(tile)([], []) == [0]


# -- packs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drafts() -> dict[str, Draft]:
    made = {}
    for method, layer in (("wageubn", "conv2"), ("muppet", "fc3"), ("muppet", "conv2"), ("float32", "conv2")):
        run = run_folder.build(method, {}, "lenet5", "digits", batch_size=2, limit=64)
        made[f"{method} {layer}"] = layers.draft(run, [layer])
    return made


ALL = {"x1": 16, "e4": 10, "gW": 7}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wageubn conv2", "muppet fc3", "muppet conv2"])
@pytest.mark.parametrize("choice", [Choice(), Choice("nc/4hw4", 4, 32)], ids=str)
def test_the_last_partial_sum_is_the_accumulator(
    name: str, choice: Choice, drafts: dict[str, Draft], tmp_path: Path
) -> None:
    made = laid_out(tiled(drafts[name], ALL), choice)
    read = pack.read(pack.write(made, tmp_path / "p"))
    plain, layer = Plain(read.folder), name.split()[1]
    for path, tile in ALL.items():
        port = read.ports[f"{layer}/{path}.partial"]
        result = {"x1": f"{layer}/x1.Wq_x0"}.get(path, "")
        result = result if result in read.ports else f"{layer}/{path}"
        assert (port.direction, port.explains) == ("trail", result)
        values = plain.values(port.name)
        assert values[-prod(port.shape[1:]) :] == plain.values(result)
        assert f"behind each {tile} products" in port.meaning and ORDERS[path] in port.meaning
    assert check.recompute(read).exit_status == 0
    result = recompute.recompute(read)
    assert result.exit_status == 0 and not result.unknown


@pytest.mark.slow
def test_layers_that_hand_on_and_chains_have_partial_sums_too(tmp_path: Path) -> None:
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=3)
    made = layers.draft(run, ["fc2", "bn2", "relu2", "fc3"], steps=2)
    read = pack.read(pack.write(tiled(made, {"x1": 30, "gW": 2}), tmp_path / "p"))
    names = {name for name in read.ports if name.endswith(".partial")}
    assert names == {f"step{k}/fc2/{path}.partial" for k in (1, 2) for path in ("x1", "gW")}  # fc3 has floats
    assert check.recompute(read).exit_status == 0
    assert recompute.recompute(read).exit_status == 0


@pytest.mark.slow
@pytest.mark.parametrize("by", ["code", "spec"])
def test_a_wrong_partial_sum_is_found(by: str, drafts: dict[str, Draft], tmp_path: Path) -> None:
    made = tiled(drafts["wageubn conv2"], {"x1": 16})
    port, codes = made.ports[-1]
    codes = codes.copy()
    codes[3, 1, 2, 3, 4] ^= 1
    read = pack.read(pack.write(replace(made, ports=[*made.ports[:-1], (port, codes)]), tmp_path / "p"))
    result = check.recompute(read) if by == "code" else recompute.recompute(read)
    (bad,) = [one for one in result.ports if one.wrong]
    assert bad.port.name == "conv2/x1.partial" and bad.mismatches[0].index == (3, 1, 2, 3, 4)


def test_what_has_no_partial_sums_is_refused(drafts: dict[str, Draft]) -> None:
    assert tiled(drafts["wageubn conv2"], {}) is drafts["wageubn conv2"]
    with pytest.raises(PackError, match="--tile x1=4: no layer's x1 is a sum of products of codes"):
        tiled(drafts["float32 conv2"], {"x1": 4})
    run = run_folder.build("wageubn", {"edges": "fixed16"}, "mlp", "digits", batch_size=4, limit=16)
    biased = layers.draft(
        run, ["fc2", "fc3"]
    )  # at first the bias is 0, and its layer is left out all the same
    made = tiled(biased, {"x1": 16})
    assert [port.name for port, _ in made.ports if "partial" in port.name] == ["fc2/x1.partial"]
    with pytest.raises(ConfigError, match="--tile x2=4: give products a tile, of x1, e4, gW"):
        tiled(drafts["wageubn conv2"], {"x2": 4})
    with pytest.raises(ConfigError, match="--tile x1=0: give products"):
        tiled(drafts["wageubn conv2"], {"x1": 0})
    with pytest.raises(ConfigError, match="--tile is for a pack of layers"):
        tiled(units.draft("mac_requant", "L0"), {"x1": 4})
    x, w = np.zeros((100, 1 << 10), np.int64), np.zeros((1000, 1 << 10), np.int64)
    with pytest.raises(
        PackError, match="1,024 tiles of 100,000 sums are more than 67,108,864 words: give a lar"
    ):
        partial_sums("x1", w, x, ((100, 1000), w.shape), {"stride": (1, 1), "padding": (0, 0)}, 1)
