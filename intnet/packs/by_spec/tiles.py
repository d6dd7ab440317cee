"""Partial sums of products by the definition: its convolution, with a dot product that is told tile by tile.

for name, codes in expected(plain): ...          every port L/x1.partial that PACK.json asks for
"""

from collections.abc import Iterator
from math import prod
from typing import Any

from intnet.packs.by_spec.plain import Plain
from intnet.packs.layouts import TILE
from intnet.packs.tiles import PARTIAL, Product, products
from intnet.spec import convolution as conv
from intnet.spec.tensor import Fixed, Tensor


def expected(plain: Plain) -> Iterator[tuple[str, list[int]]]:
    """(name, codes) of the ports of partial sums."""
    about, generator = plain.manifest["about"], plain.manifest["generator"]
    for path, tile in about.get(TILE, {}).items():
        for name, product in products(plain.pack.ports, about, generator, path):
            yield f"{name}.{PARTIAL}", _partial(plain, product, tile)


def _partial(plain: Plain, product: Product, tile: int) -> list[int]:
    a, b = (_codes(plain, name) for name in product.operands)
    shape, window = plain.shape(product.result), {"groups": 1} | dict(product.window)
    how: Any = {"stride": window["stride"], "padding": window["padding"], "groups": window["groups"]}
    how["dot"] = conv.tiled_dot(tile)
    if product.path == "x1":
        found = conv.conv2d(b, a, **how)
    elif product.path == "e4":
        found = conv.conv2d_input_grad(b, a, shape, **how)
    else:
        found = conv.conv2d_weight_grad(a, b, shape, **how)
    assert len(found.values) == prod(shape)
    return [sums[k] for k in range(len(found.values[0])) for sums in found.values]


def _codes(plain: Plain, name: str) -> Tensor:
    value = plain.value(name)
    assert isinstance(value, Fixed)
    return value.ints()
