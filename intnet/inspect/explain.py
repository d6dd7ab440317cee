"""One element's whole way: from the operands that entered to the code that was stored.

    explain(event, index) -> Explanation

Everything is done again in Python integers and Fractions, element by element and apart from the kernels
(but for the extremes of a whole tensor, which decide its grid, `as_spec.grid`):
the exact value, the value in units of the grid (`scaled` = value / 2**grid), its floor and remainder, the
tie or random word, the decision, the code before and after saturation. The code that is reached must be
the one that the library stored; where it is not, `Disagreement` is raised: one of the two is wrong.

A square root has no rational value: `square` is given in the place of `value`, and its remainder is
decided by comparing squares. Golden packs use the same trail for words that do not match. A bucketed codec
rounds float32 arithmetic, not exact values: what `inspect/explain_buckets.py` finds of it stands in `bucket`.
"""

import json
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.errors import FormatError, ShapeError
from intnet.exact.blocks.buckets import Codec
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact, Expression, exact
from intnet.exact.quantize import flag_words
from intnet.exact.sources import FloatExact, Root
from intnet.inspect import as_spec
from intnet.inspect.explain_blocks import Block, in_block, in_mx_block
from intnet.inspect.explain_buckets import Rounding, way
from intnet.inspect.explain_rules import Disagreement, Index, comma
from intnet.inspect.explain_words import in_word
from intnet.inspect.operands import Operands, Product
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat, Flag, Format
from intnet.numbers.microscaling import BlockScaled, Microscaling
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import HLS_ALIASES, MODES
from intnet.numbers.small_floats import Float, FloatTensor
from intnet.spec import formats as spec
from intnet.spec import small_floats
from intnet.spec.rounding import HALF
from intnet.spec.tensor import power


@dataclass(frozen=True)
class Term:
    """One term of a sum: coefficient * code * 2**shift; names are '' where nobody knows them."""

    name: str
    code: int
    coefficient: int = 1
    coefficient_name: str = ""
    shift: int = 0


@dataclass(frozen=True)
class Value:
    """value = (sum of the terms + offset) / denominator * 2**exponent, then max(., 0) where `relu`.

    value:  the exact value; None for a root, whose exact square is `square`; of a curve within 2^-200
    number: the float32 that entered, where it was no integer code
    curve:  'tanh' .., of the one term, where the value is irrational
    """

    terms: tuple[Term, ...]
    offset: int
    denominator: int
    exponent: int
    relu: bool
    value: Fraction | None
    square: Fraction | None = None
    number: float | None = None
    offset_name: str = ""
    denominator_name: str = ""
    curve: str = ""


@dataclass(frozen=True)
class Explanation:
    """The way of one element. `step` counts from 0, as the random words do.

    stored:   the value of the stored code, code * 2**exponent, of a codec a~; CQ gives the magnitude of x
              up, so there it is not near `value`
    width:    bits of the word that `binary` and `hex` show in two's complement; 0 in a block of b = 0
              of a codec the packed word, which is unsigned
    entered:  (path, value) of what entered at the same index, where no term is named: a ReLU's error
    flag:     the stored word of the flag format (flag, sign, magnitude) in binary, else ''
    element:  that of a small float in an MX block (sign, exponent and fraction, apart) in binary, else ''
    """

    layer: str
    path: str
    step: int
    index: Index
    format: str | None
    formula: str
    value: Value
    product: Product | None
    rounding: Rounding | None
    code: int | None
    exponent: int | None
    width: int | None
    binary: str
    hex: str
    flag: str
    element: str
    stored: Fraction
    entered: tuple[tuple[str, Fraction], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON values: a Fraction is the text 'p/q' or 'p', a tuple a list, what there is none of is null."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


def explain(event: Event, index: Index, operands: Operands | None = None) -> Explanation:
    """The way of element `index` of an event's value; `operands` names what entered.

    ShapeError for an index that the value does not have, FormatError for a value that cannot be read
    exactly, Disagreement where the code reached is not the one that was stored.
    """
    operands = operands or Operands()
    where = event.name
    shape = tuple(event.result.shape)
    if len(index) != len(shape) or any(not 0 <= i < size for i, size in zip(index, shape, strict=False)):
        raise ShapeError(
            f"{where} has no element {comma(index)}: its shape is {comma(shape) or 'that of a scalar'}, "
            "each index counts from 0"
        )
    source = _source(event, index)
    value = _value(event, source, index, operands)
    result, rounding = event.result, None
    code: int | None
    exponent: int | None = None
    if isinstance(event.format, Codec):
        rounding, code, stored = way(event, index)
    else:
        if event.format is not None:
            rounding = _round(event, event.format, source, value, index)
        code, exponent, stored = _stored(result, value, index)
        _check(rounding, code, where, index)
    width, binary, digits, flag = _word(result, rounding, code, index)
    return Explanation(
        event.layer,
        event.path,
        event.step,
        index,
        str(event.format) if event.format else None,
        operands.formula(event),
        value,
        operands.product(event),
        rounding,
        code,
        exponent,
        width,
        binary,
        digits,
        flag,
        _element(event, rounding, stored, index),
        stored,
        _entered(event, value, index, operands),
    )


def _entered(
    event: Event, value: Value, index: Index, operands: Operands
) -> tuple[tuple[str, Fraction], ...]:
    """Elements of the paths that `event` was made from, where its exact value names none of them."""
    if value.number is not None or any(term.name for term in value.terms):
        return ()
    found = []
    for one in operands.inputs(event):
        name = f"{one.layer}/{one.path}"
        held = operands.events[name].result
        if isinstance(held, QTensor | Exact | np.ndarray) and held.shape == event.result.shape:
            entered = replace(operands.events[name], source=held)
            number = value_at(entered, _source(entered, index), index, Operands()).value
            found += [] if number is None else [(name, number)]
    return tuple(found)


def _check(rounding: Rounding | None, code: int | None, where: str, index: Index) -> None:
    if rounding is None:
        return
    reached = rounding.kept << rounding.lift if rounding.level is None else rounding.level
    if reached != code:
        raise Disagreement(
            f"{where} {comma(index)}: exact arithmetic reaches code {reached}, stored is {code}"
        )


def _word(
    result: object, rounding: Rounding | None, code: int | None, index: Index
) -> tuple[int | None, str, str, str]:
    """(bits, binary, hex, stored word of the flag format) of what is stored, or of a float32."""
    flag = ""
    if isinstance(result, np.ndarray) and result.dtype == np.float32:
        pattern = int(result[index].view(np.uint32))
        return 32, f"{pattern:032b}", f"{pattern:08x}", flag
    if code is None:
        return None, "", "", flag
    elements = result.elements if isinstance(result, BlockScaled) else result
    if isinstance(elements, FloatTensor):
        one = elements[index]
        return one.format.bits, one.bin().item(), one.hex().item(), flag
    width = elements.word_bits() if isinstance(elements, QTensor) else code.bit_length() + 1
    if rounding is not None and rounding.block is not None:
        width = rounding.block.bits
    word = code & ((1 << width) - 1)
    if rounding is not None and rounding.bucket is not None:
        width, word = rounding.bucket.place.width, rounding.bucket.place.stored
    if isinstance(result, QTensor) and isinstance(result.format, Flag):
        flag = f"{int(flag_words(result[index])):0{result.format.bits}b}"
    binary, digits = (f"{word:0{width}b}", f"{word:0{(width + 3) // 4}x}") if width else ("", "")
    return width, binary, digits, flag


def _element(event: Event, rounding: Rounding | None, stored: Fraction, index: Index) -> str:
    """The word of an element in an MX block; a zero has the sign of what was rounded to it."""
    if rounding is None or rounding.shared is None or not isinstance(event.format, Along):
        return ""
    form = as_spec.element_of(event.format.mx.element)
    if not isinstance(form, small_floats.Float):
        return ""
    one = stored / power(rounding.shared.k)
    zero = "-0" if np.signbit(event.source[index]) else Fraction(0)
    word = f"{small_floats.encode(one or zero, form).word:0{form.bits}b}"
    return f"{word[0]} {word[1 : 1 + form.e]} {word[1 + form.e :]}".strip()


def _at(part: np.ndarray | int, index: Index) -> int:
    """An int, or the element of an array of channels (the last axis) or of the whole shape."""
    return int(part[index[len(index) - part.ndim :]]) if isinstance(part, np.ndarray) else int(part)


def _stored(result: object, value: Value, index: Index) -> tuple[int | None, int | None, Fraction]:
    """(code, exponent, value) that readers get; no code where they get a quotient or a float."""
    if isinstance(result, FloatTensor):
        result, index = result[index].to_qtensor(), ()
    elif isinstance(result, BlockScaled):
        result = result.to_qtensor()
    if isinstance(result, QTensor):
        exponent = result.exponent
        if isinstance(exponent, np.ndarray):
            exponent = int(np.broadcast_to(exponent, result.shape)[index])
        code = int(result.codes[index])
        return code, exponent, code * Fraction(2) ** exponent
    if isinstance(result, np.ndarray):
        return None, None, Fraction(float(result[index]))
    assert value.value is not None, "a root is always rounded"
    code_value = value.value / Fraction(2) ** value.exponent
    if isinstance(result, Exact) and code_value.denominator == 1 and not np.any(np.asarray(result.den) != 1):
        return code_value.numerator, value.exponent, value.value
    return None, None, value.value


# -- the exact value ---------------------------------------------------------------------------


def _source(event: Event, index: Index) -> Expression:
    """What entered as an expression; of a tensor with many exponents as if all had this element's."""
    q = event.source
    if isinstance(q, QTensor) and isinstance(q.exponent, np.ndarray):
        q = QTensor(q.codes, int(np.broadcast_to(q.exponent, q.shape)[index]), bound=q.bound)
    return exact(q, event.name)


def _value(event: Event, source: Expression, index: Index, operands: Operands) -> Value:
    value = value_at(event, source, index, operands)
    if event.operands is None or not isinstance(source, Exact):
        return value
    inner = _sum(event, event.operands, index, operands)
    if inner.value != value.value:
        raise Disagreement(
            f"{event.name} {comma(index)}: its operands give {inner.value}, "
            f"the value that was handed on is {value.value}"
        )
    return inner


def value_at(event: Event, source: Expression, index: Index, operands: Operands) -> Value:
    """What an expression says of its element `index`."""
    if isinstance(source, Exact):
        return _sum(event, source, index, operands)
    if isinstance(source, Root):
        numerator = source.numerators[index[0]]
        square = Fraction(numerator, source.den) * Fraction(4) ** source.exponent
        symbol = operands.symbol(event)
        term = Term("".join(symbol.terms[:1]), numerator)
        den = symbol.denominator
        return Value((term,), 0, source.den, source.exponent, False, None, square, denominator_name=den)
    if not isinstance(source, FloatExact):  # a curve, such as tanh (`ops/`)
        x, name = source.x, type(source).__name__.lower()
        code, exponent = int(x.codes[index]), int(x.exponent)
        near = as_spec.curve(name, code * power(exponent))
        return Value((Term("", code),), 0, 1, exponent, False, near, curve=name if code else "")
    number = float(source.values[index])
    if not np.isfinite(number):
        raise FormatError(f"{event.name} {comma(index)} is {number}: it has no exact value")
    return Value((), 0, source.den, 0, False, Fraction(number) / source.den, number=number)


def _sum(event: Event, source: Exact, index: Index, operands: Operands) -> Value:
    symbol = operands.symbol(event)
    terms = [
        Term(name, int(term.codes[index]), _at(coefficient, index), named, shift)
        for term, coefficient, shift, name, named in operands.parts(event, source)
    ]
    offset, den = _at(source.offset, index), _at(source.den, index)
    numerator = offset + sum((term.code * term.coefficient) << term.shift for term in terms)
    value = Fraction(max(numerator, 0) if source.relu else numerator, den) * Fraction(2) ** source.exponent
    return Value(
        tuple(terms),
        offset,
        den,
        source.exponent,
        source.relu,
        value,
        offset_name=symbol.offset if isinstance(source.offset, np.ndarray) else "",
        denominator_name=symbol.denominator,
    )


# -- rounding ----------------------------------------------------------------------------------


def _round(
    event: Event,
    format: Format | Along | Float | Microscaling,
    source: Expression,
    value: Value,
    index: Index,
) -> Rounding:
    where, mode = event.name, HLS_ALIASES.get(event.rounding or "", event.rounding or "")
    if mode not in MODES:
        raise FormatError(f"{where}: its event names no rounding mode, but {mode!r}")
    word, bits = None, None
    if mode == "stochastic":
        if event.words is None:
            raise FormatError(f"{where}: its event has no random words")
        bits, flat = event.word_bits, int(np.ravel_multi_index(index, event.result.shape))
        word = int(event.words.reshape(-1)[flat]) >> (32 - bits)
    if isinstance(format, Float | Microscaling):
        assert value.value is not None, "a root is no word's value"
        return in_word(event, format, value.value, value.number, mode, (word, bits), index)
    block = in_block(event, index) if isinstance(format, BlockFloat) else None
    if block is not None and block.emptied:
        return _emptied(mode, block)
    shared = None
    if block is not None:  # the codes of a block are those of fixed point
        fl = block.bits - 1 - block.exponent
        form: spec.Format = spec.FixedPoint(block.bits, fl, overflow="saturate_symmetric")
    elif isinstance(format, Along):
        shared, form = in_mx_block(event, index)
    else:
        form = as_spec.format_of(format)
    rule = as_spec.mode_of(mode)
    grid = as_spec.grid(form, source) if shared is None else shared.k
    scaled: Fraction | None = None
    square: Fraction | None = None
    remainder: Fraction | None
    if value.value is not None:
        way = form.way(value.value, grid, rule, word, bits or 32)
        scaled, remainder = value.value / way.step, way.decision.fraction
    else:
        assert value.square is not None
        way = form.root_way(value.square, grid, rule)
        square = value.square / way.step**2
        remainder = way.decision.fraction if way.decision.fraction in (0, HALF) else None
    low, high, overflow = way.limits or (None, None, "")
    return replace(
        Rounding.of(mode, way.decision, word),
        grid=as_spec.log2(way.step), log2_r=grid if isinstance(form, as_spec.OF_R) else None,
        scaled=scaled, scaled_square=square, remainder=remainder, word_bits=bits, low=low, high=high,
        overflow="saturate" if block else overflow, kept=way.kept, saturated=way.saturated,
        lift=way.lift.bit_length() - 1, block=block, shared=shared,
        level=None if way.levels is None else way.code,
    )  # fmt: skip


def _emptied(mode: str, block: Block) -> Rounding:
    """Of a block that keeps no bits: nothing is rounded, nothing saturates."""
    step = block.exponent - max(block.bits, 1) + 1
    return Rounding(mode, step, rule=block.emptied, low=0, high=0, overflow="saturate", block=block)
