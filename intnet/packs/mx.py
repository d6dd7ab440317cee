"""Words of tensors in MX blocks: elements as their format encodes them, a scale of E8M0 a block.

    L/x0            words of the elements: sign, exponent, fraction; of MXINT8 codes in two's complement
    L/x0.scale      w of each block, for 2^(w - 127), in the order of the blocks along the axis

`rounding["mx"]` of a port of elements says the format, as JSON (`told`, `along_of`). A zero has the sign of
what was rounded to it, as the elements of `numbers/microscaling.py` do; the values that products read have
none. The word 255 of a scale and elements that are NaN or infinite stand in no pack: methods refuse them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from math import frexp
from typing import Any

import numpy as np

from intnet.errors import ConfigError, FormatError, PackError, ShapeError
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.blocks.mx_loops import SIZE
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import BIAS, NAN, Microscaling
from intnet.numbers.qtensor import QTensor, container
from intnet.numbers.small_floats import Float, FloatTensor
from intnet.packs.ports import Json
from intnet.spec.mx_blocks import RULES

MX = "mx"  # the key of `rounding`
SCALE = ".scale"  # after the name of a port of elements
SCALED, TOP = "scaled", "top"  # the format at a port of scales; the trail of one: t of each block
ELEMENTS = {"Float": Float, "FixedPoint": FixedPoint}


def told(along: Along, dimensions: int) -> Json:
    """The format as JSON; the axis counts from 0."""
    element = along.mx.element
    return {
        "name": str(along),
        "element": {"kind": type(element).__name__, "name": str(element), "fields": asdict(element)},
        "scale": along.mx.scale,
        "block": SIZE,
        "axis": along.axis % dimensions,
        "groups": along.groups,
    }


def along_of(json: Mapping[str, Any]) -> Along:
    """The inverse; PackError for what is no such format."""
    try:
        element = ELEMENTS[json["element"]["kind"]](**json["element"]["fields"])
        along = Along(Microscaling(element, SIZE, json["scale"]), json["axis"], json["groups"])
        size = json["block"]
    except (KeyError, TypeError, AttributeError, ConfigError, FormatError) as error:
        raise PackError(f"{json!r} is no format of MX blocks ({error})") from None
    if size != SIZE:
        raise PackError(f"{json!r}: blocks have {SIZE} elements")
    return along


def check(bits: int, exponent: Any, json: Any, shape: tuple[int, ...]) -> None:
    """PackError where a port of elements does not say what they are."""
    along = along_of(json)
    if bits != along.bits or not isinstance(exponent, str):
        raise PackError(f"elements of {along.bits} bits and a port of scales, not {bits} and {exponent!r}")
    try:
        if along.axis not in range(len(shape)):
            raise ShapeError(f"axis {along.axis} is none of {len(shape)}")
        along.view(shape)
    except (ArithmeticError, TypeError, ShapeError) as error:
        raise PackError(f"elements of the shape {shape} have no blocks {along} ({error})") from None


def block_shape(shape: tuple[int, ...], along: Along) -> tuple[int, ...]:
    """Of the scales: along the axis the blocks of one group after those of another."""
    axis = along.axis % len(shape)
    count = along.groups * -(-along.view(shape)[1] // SIZE)
    return (*shape[:axis], count, *shape[axis + 1 :])


def greatest_exponent(along: Along) -> int:
    """E, the exponent of the greatest element."""
    return frexp(along.greatest)[1] - 1


def chapter(manifest: Json) -> Iterator[str]:
    """CONTRACT.md's chapter on the formats of ports; nothing where none is in MX blocks."""
    found = [port for port in manifest["ports"] if MX in port["rounding"]]
    if not found:
        return
    yield "## Microscaling\n"
    yield "Ports with a port of scales are in OCP's microscaling (MX) formats.\n"
    yield from (f"- {rule}" for rule in RULES)
    yield ""
    yield f"| port | element | bits | L | m | E | g | scale | blocks of {SIZE} along | groups |"
    yield "|---|---|---:|---:|---:|---:|---:|---|---|---:|"
    for port in found:
        json, along = port["rounding"][MX], along_of(port["rounding"][MX])
        numbers = (along.bits, along.least, along.digits, greatest_exponent(along), f"{along.greatest:.12g}")
        axis = port["axes"].split(",")[json["axis"]]
        cells = (f"`{port['name']}`", json["element"]["name"], *numbers, json["scale"], axis, json["groups"])
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def name_of(port: Json) -> str:
    """The format of a port of elements or of scales; '' of others."""
    how = port["rounding"]
    found: Json = how.get(MX) or how.get(SCALED) or {}
    return str(found.get("name", ""))


def bits_of(port: Json) -> str:
    """What the bits of a word are: of an element that is a small float, of a scale."""
    if port["encoding"] == "e8m0":
        return "E8M0 [7:0]"
    fields = port["rounding"][MX]["element"]["fields"]
    e, m = fields["e"], fields["m"]
    spans = (f"[{e + m}]", f"[{e + m - 1}:{m}]", f"[{m - 1}:0]" if m > 1 else "[0]")
    return "{}: sign {}, exponent {}, fraction {}".format(port["rounding"][MX]["element"]["name"], *spans)


def value_of(port: Json) -> str:
    """What a word stands for."""
    if port["encoding"] == "e8m0":
        return "2^(w - 127)"
    element = port["rounding"][MX]["element"]
    if element["kind"] == "Float":
        return f"element * 2^(`{port['exponent']}` - {BIAS})"
    return f"code * 2^(`{port['exponent']}` - {BIAS + element['fields']['fl']})"


# -- from tensors to words -------------------------------------------------------------------------


def scales_of(q: QTensor, along: Along) -> np.ndarray:
    """int64 words of the scales of what `InBlocks.to_qtensor` made.

    Defined by `spec/microscaling.py: scale_of`.
    """
    words = np.asarray(q.exponent, np.int64) + (along.digits - along.least + BIAS)
    return words.reshape(along.view(q.shape))[:, ::SIZE].reshape(block_shape(q.shape, along))


def tops_of(x: np.ndarray, along: Along) -> np.ndarray:
    """float32 greatest magnitudes of the blocks of x."""
    starts = np.arange(0, along.view(x.shape)[1], SIZE)
    found = np.maximum.reduceat(np.abs(x).reshape(along.view(x.shape)), starts, axis=1)
    return found.reshape(block_shape(x.shape, along))


def scales_by(tops: np.ndarray, along: Along) -> np.ndarray:
    """int64 words of the scales of blocks with these greatest magnitudes, float32.

    Defined by `spec/microscaling.py: scale_of`.
    """
    parts, exponents = np.frexp(tops.astype(np.float64))
    lifted = (2 * parts - 1) * 2**23 > along.lifts()
    k = np.maximum(exponents - 1 - greatest_exponent(along) + lifted, -BIAS).astype(np.int64)
    return np.where(tops == 0, 0, np.minimum(k, BIAS) + BIAS)


def words_of(codes: np.ndarray, negative: np.ndarray, along: Along) -> np.ndarray:
    """int64 words of elements whose codes count least steps; negative: the sign that a zero has.

    Defined by `spec/small_floats.py: encode`.
    """
    if isinstance(along.mx.element, FixedPoint):
        return codes.astype(np.int64)
    size = np.abs(codes.astype(np.int64))
    above = np.maximum(np.frexp(size.astype(np.float64))[1] - 1 - along.digits, 0).astype(np.int64)
    sign = (codes < 0) | (negative & (codes == 0))
    return (above << along.digits) + (size >> above) + (sign.astype(np.int64) << along.bits - 1)


# -- and back --------------------------------------------------------------------------------------


def numbers(words: np.ndarray, along: Along) -> np.ndarray:
    """float64 of elements, their scales left out; NaN and infinities too."""
    element = along.mx.element
    if isinstance(element, FixedPoint):
        return np.ldexp(words.astype(np.float64), -element.fl)
    return FloatTensor.from_words(words, element).to_float64()


def tensor(words: np.ndarray, scales: np.ndarray, along: Along, where: str) -> QTensor:
    """The QTensor of elements and scales; PackError for a NaN, an infinity, scales of other blocks.

    Defined by `spec/microscaling.py: decoded`.
    """
    if scales.shape != block_shape(words.shape, along):
        raise PackError(f"{where}: scales of the shape {scales.shape} for elements of {words.shape}")
    shape, values = words.shape, numbers(words, along)
    if not np.all(np.isfinite(values)) or np.any(scales == NAN):
        raise PackError(f"{where}: a NaN or an infinity in MX blocks")
    a, n, b = along.view(shape)
    each = np.repeat(scales.reshape(a, -1, b), SIZE, axis=1)[:, :n].reshape(shape)
    exponents = (each - BIAS + along.least - along.digits).astype(np.int32)
    codes = np.ldexp(values, along.digits - along.least)
    return QTensor(codes.astype(container(int(np.abs(codes).max(initial=0)))), exponents)
