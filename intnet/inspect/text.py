"""What was inspected, as text: the table of a layer, and one number's way from its value to its bits."""

import sys
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

from rich.console import Console
from rich.text import Text

from intnet.inspect.explain import Explanation, Term, Value
from intnet.inspect.explain_blocks import Block, Shared
from intnet.inspect.explain_buckets import Bucket, Operation, Rounding
from intnet.inspect.explain_rules import comma
from intnet.inspect.measure import Measured
from intnet.methods.symbols import Symbol
from intnet.runs import report
from intnet.show import tables
from intnet.show.tables import Column, Table

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN = " .:-=+*#@"  # where the output's encoding has no blocks
WIDTH = 126  # of the widest table
DIGITS = 20  # of a decimal
NUMBERS = ("nominal", "used", "bound", "exp", "range", "sat.", "zeros", "SQNR")


def title(result: dict[str, Any]) -> str:
    """'wageubn, mlp on digits: step 1, seed 1'."""
    return f"{report.title(result)}: step {result['step']:,}, seed {result['seed']}"


# -- the table ---------------------------------------------------------------------------------


def show(rows: Sequence[tuple[Symbol, Measured]]) -> None:
    """One table a layer, one row a path, under 'forward', 'backward' and 'update'."""
    console = Console(highlight=False)
    narrow = console.is_terminal and console.width < WIDTH
    columns = [Column("path", right=False), Column("format", right=False), *tables.numbers(*NUMBERS)]
    columns += [Column("before", right=False), Column("after", right=False)]
    for layer in dict.fromkeys(row.layer for _, row in rows):
        own = [(symbol, row) for symbol, row in rows if row.layer == layer]
        lines: list[list[str | Text]] = []
        part = ""
        for symbol, row in own:
            if symbol.part != part:
                part = symbol.part
                lines.append([Text(part, "dim"), *[""] * (len(columns) - 1)])
            lines.append(_cells(row, narrow))
        tables.show(Table(layer, columns, lines), console)
        for _, row in own:
            if row.buckets is not None:
                print(f"{row.path}: {packed(row)}")


def packed(row: Measured) -> str:
    """What a bucketed codec really takes: 'affine 4 bits, buckets of 512: 16 codes, ...'."""
    of = row.buckets
    assert of is not None
    codes = "/".join(f"{count:,}" for count in of.distinct_codes)
    kinds = [f"{of.promoted:,} of {max(of.nominal_bits)} bits"] if of.promoted is not None else []
    kinds += [f"{of.constant:,} constant"] * bool(of.constant)
    scales = "" if of.scales is None else ", scales " + "..".join(f"{s:.3g}" for s in of.scales)
    count = f"{of.buckets:,} bucket{'s' * (of.buckets != 1)}" + f" ({', '.join(kinds)})" * bool(kinds)
    return f"{row.format}: {codes} codes, {of.packed_bits:g} packed bits an element; {count}{scales}"


def _cells(row: Measured, narrow: bool) -> list[str | Text]:
    nominal, used, *others = numbers(row)
    shown = [sparkline(row.before or [], narrow), sparkline(row.after, narrow)]
    return [row.path, row.short, nominal, Text(used, "yellow" if over(row) else ""), *others, *shown]


def unit(row: Measured) -> str:
    """What the histograms count: 'code, in steps of 2^-7', or 'value' of a float path and of blocks."""
    if row.exponent is None or in_blocks(row):
        return "value"
    return "code, in steps of " + "..".join(f"2^{exponent}" for exponent in dict.fromkeys(row.exponent))


def in_blocks(row: Measured) -> bool:
    """Whether it is block float or MX: codes in steps of their own block."""
    return row.format.startswith(("BFP(", "MX("))


def over(row: Measured) -> bool:
    """Whether the codes needed more bits than the format names."""
    return row.nominal_bits is not None and (row.used_bits or 0) > row.nominal_bits


def numbers(row: Measured) -> list[str]:
    """nominal, used, bound, exponent, range of codes, saturated, zeros, SQNR as texts."""
    return [
        _nominal(row),
        tables.text(row.range_bits, ".1f"),
        tables.text(row.bound_bits),
        report.span(row.exponent) if row.exponent else "-",
        _range(row),
        tables.text(row.saturated, ","),
        _share(row.zeros, row.elements),
        tables.text(row.sqnr_db, ".1f"),
    ]


def _nominal(row: Measured) -> str:
    """Of a mix of two widths both, of blocks of several the widest and the mean."""
    if row.buckets:
        return "/".join(map(str, row.buckets.nominal_bits))
    mixed = in_blocks(row) and row.mean_bits is not None and row.mean_bits != row.nominal_bits
    return f"{row.nominal_bits}, mean {row.mean_bits:.3g}" if mixed else tables.text(row.nominal_bits)


def _share(count: int, of: int) -> str:
    return "-" if not count else f"{count / of:.0%}" if 200 * count >= of else "<1%"


def _range(row: Measured) -> str:
    if row.range is None:
        return "-"
    codes = row.exponent or row.buckets
    return "..".join(_short(int(v)) if codes else f"{v:.3g}" for v in row.range)


def _short(code: int) -> str:
    """A code of up to six digits as it is, a longer one as '-23.7M' (`--json` has all digits)."""
    number, units = float(code), iter(("", "K", "M", "G", "T", "P", "E"))
    unit = next(units)
    if abs(code) < 10**6:
        return str(code)
    while abs(number) >= 999.95:
        number, unit = number / 1000, next(units, "?")
    return f"{number:.1f}{unit}"


def sparkline(counts: Sequence[int], narrow: bool = False) -> str:
    """One block a bin (two bins where it is narrow), as high as its count; only empty bins are blank."""
    if narrow:  # from both ends, so that what is symmetric stays so
        half, odd = len(counts) // 2, len(counts) % 2
        counts = [*_pairs(counts[:half]), *counts[half : half + odd], *_pairs(counts[: -half - 1 : -1])[::-1]]
    top = max(counts, default=0) or 1
    blocks = BLOCKS if (sys.stdout.encoding or "").lower().startswith("utf") else PLAIN
    return "".join(blocks[-(-count * (len(blocks) - 1) // top)] for count in counts)


def _pairs(counts: Sequence[int]) -> list[int]:
    return [sum(counts[k : k + 2]) for k in range(0, len(counts), 2)]


# -- one element -------------------------------------------------------------------------------


def elements(found: Sequence[Explanation]) -> None:
    """Each one's way."""
    for one in found:
        print()
        print(text(one))


def text(one: Explanation) -> str:
    """The whole way of one element, a line a station."""
    rows = stations(one)
    at = next(k for k, (name, _) in enumerate(rows) if name in ("sum", "exact value"))
    rows[at:at] = [("operand", f"{name} = {both(number)}") for name, number in one.entered]
    width = max(len(name) for name, _ in rows)
    where = f"{one.layer}/{one.path}[{comma(one.index)}]"
    return "\n".join([where, *(f"  {name:{width}}  {line}".rstrip() for name, line in rows)])


def stations(one: Explanation) -> list[tuple[str, str]]:
    """(name, value) of every station of the way, from the formula to the code."""
    rows: list[tuple[str, str]] = []
    if one.formula:
        rows.append(("formula", one.formula))
    if one.product:
        rows.append(("products", _product(one)))
    if one.value.number is not None:
        rows.append(("operand" if one.format else "value", f"float32 {one.value.number!r}"))
    rows += _operands(one.value)
    rows += _exact(one.value)
    if one.rounding:
        rows += _rounded(one, one.rounding)
    return rows + _code(one)


def _product(one: Explanation) -> str:
    assert one.product is not None
    bound = f", |code| <= {one.product.bound:,}" if one.product.bound else ""
    return f"{' * '.join(one.product.factors)}: a sum of up to {one.product.terms:,}{bound}"


def _operands(value: Value) -> list[tuple[str, str]]:
    """A line a term, the offset and the denominator; nothing for a single code as it is."""
    rows = []
    for term in value.terms:
        if term.name or len(value.terms) > 1 or term.coefficient != 1 or value.denominator != 1:
            rows.append(("operand", _term(term)))
    if value.offset or value.offset_name:
        rows.append(("offset", f"{value.offset:,}{_named(value.offset_name)}"))
    if value.denominator != 1 or value.denominator_name:
        rows.append(("denominator", f"{value.denominator:,}{_named(value.denominator_name)}"))
    if value.relu:
        numerator = value.offset + sum((t.code * t.coefficient) << t.shift for t in value.terms)
        rows.append(("before relu", f"{numerator:,}"))
    return rows


def _named(name: str) -> str:
    return f" ({name})" if name else ""


def _term(term: Term) -> str:
    factor = ""
    if term.coefficient != 1 or term.coefficient_name:
        factor = f", times {term.coefficient:,}{_named(term.coefficient_name)}"
    shift = f", shifted left by {term.shift}" if term.shift else ""
    return f"{term.name or 'code'} = {term.code:,}{factor}{shift}"


def _exact(value: Value) -> list[tuple[str, str]]:
    unit = f" * 2^{value.exponent}" if value.exponent else ""
    if value.value is None:
        assert value.square is not None
        root = f"sqrt({value.terms[0].code:,}/{value.denominator:,}){unit}"
        return [("exact value", f"{root} = {root_decimal(value.square)}")]
    if value.curve:
        x = value.terms[0].code * Fraction(2) ** value.exponent
        return [("exact value", f"{value.curve}({fraction(x)}) = {decimal(value.value)}")]
    rows = [("exact value", both(value.value))]
    if value.terms and not value.denominator == 1 == len(value.terms):
        whole = value.value / Fraction(2) ** value.exponent
        rows.insert(0, ("sum", f"{fraction(whole)}{unit}"))
    return rows


def _rounded(one: Explanation, r: Rounding) -> list[tuple[str, str]]:
    if r.bucket is not None:
        return _in_bucket(r, r.bucket)
    assert r.grid is not None
    told = decimal if one.value.curve else both
    set_by = f", R(x) = 2^{r.log2_r}" if r.log2_r is not None else ""
    if (one.format or "").startswith("BF("):
        set_by = f", s = {-r.grid} by the tensor's extremes"
    if r.block is not None:
        rows = _mx_block(one, r, r.block) if (one.format or "").startswith("MX(") else _block(r, r.block)
        if not r.block.bits or r.scaled is None:
            return [*rows, ("decision", r.rule)]
    else:
        rows = [("rounded to", f"{one.format}, {r.mode}, steps of 2^{r.grid}{set_by}")]
    if r.shared is not None:
        rows = [*_shared(r.shared), *rows]
    if r.scaled is not None:
        rows.append(("scaled", told(r.scaled)))
    elif r.scaled_square is not None:
        rows.append(("scaled", root_decimal(r.scaled_square)))
    rows.append(("floor", f"{r.floor:,}" + ", the number of the level below" * (r.level is not None)))
    if r.remainder is not None:
        rows.append(("remainder", told(r.remainder)))
    rows += _decided(r)
    if r.level is not None:
        rows.append(("level", f"number {r.kept:,} is code {r.level:,}"))
    if r.lift and r.shared is not None:
        rows.append(("binade", f"of the value: code = {r.kept} * 2^{r.lift}, in the block's least steps"))
    elif r.lift:
        rows.append(("flag", f"coarse grid: code = {r.kept} * 2^{r.lift}"))
    return rows


def _decided(r: Rounding, part: str = "remainder") -> list[tuple[str, str]]:
    """The random word, the decision, saturation."""
    rows = []
    if r.word is not None:
        rows.append(("random word", f"{r.word} ({r.word_bits} bits)"))
        rows.append(("threshold", f"{r.threshold} = floor({part} * 2^{r.word_bits})"))
    rows.append(("decision", r.rule))
    limits = "no limits" if r.low is None or r.high is None else f"limits {r.low:,}..{r.high:,}"
    change = f"{r.rounded:,} -> {r.kept:,} ({limits}, {r.overflow})" if r.saturated else f"no ({limits})"
    rows.append(("before saturation", f"{r.rounded:,}"))
    rows.append(("saturation", change))
    return rows


def _in_bucket(r: Rounding, bucket: Bucket) -> list[tuple[str, str]]:
    """The bucket, its scale, and the element's float32 operations up to the code."""
    inside = f"elements {bucket.first:,}..{bucket.last:,} of the tensor, flat"
    rows = [
        ("codec", bucket.codec),
        ("bucket", f"{bucket.number:,} of 0..{bucket.of - 1:,}: {inside}; in it element {bucket.element:,}"),
    ]
    if bucket.promotion is not None:
        p = bucket.promotion
        sign, what = ("<", "promoted") if p.promoted else (">=", "not promoted")
        rule = f"random word {p.word} {sign} {p.threshold} = floor({p.probability!r} * 2^32)"
        rows.append(("bits b", f"{bucket.bits}, {what}: {rule}"))
    else:
        rows.append(("bits b", f"{bucket.bits}"))
    rows += [("min of bucket", both(bucket.least)), ("max of bucket", both(bucket.greatest))]
    rows += [_operation(one) for one in bucket.scaling]
    if r.scaled is None:
        return [*rows, ("decision", r.rule)]
    part = bucket.before[-1] if r.word is not None else None
    rows += [_operation(one) for one in bucket.before if one is not part]
    rows.append(("floor", f"{r.floor:,}"))
    if part is not None:
        rows.append(_operation(part))
    elif r.remainder is not None:
        rows.append(("fraction", both(r.remainder)))
    return rows + _decided(r, "fraction")


def _operation(one: Operation) -> tuple[str, str]:
    """The formula, and what it comes to in float32; the exact result too where that is another."""
    formula = "" if one.formula == one.name else f"{one.formula} = "
    if one.exact is None:
        return one.name, f"{formula}in float32 {both(one.value)}"
    if one.exact == one.value:
        return one.name, f"{formula}{both(one.value)}"
    return one.name, f"{formula}{decimal(one.exact)}, in float32 {both(one.value)}"


def _packed(one: Explanation, bucket: Bucket) -> list[tuple[str, str]]:
    """The code, where it lies, and the value that the gradients read."""
    assert one.code is not None
    place = bucket.place
    last = place.bit + place.width - 1
    lies = f"bits {place.bit}..{last} of 64-bit word {place.word:,}"
    if last >= 64:
        lies = f"bits {place.bit}..63 of 64-bit word {place.word:,}, 0..{last - 64} of the next"
    offset = {"levels": "2^b", "symmetric": "2^(b-1)"}.get(bucket.kind, "L")
    sign = "" if one.code == place.stored else f", stored as code + {offset} = {place.stored:,}"
    first, shift = divmod(64 * place.word + place.bit, 8)
    rows = [
        ("code", f"{one.code:,}{sign} = 0b{one.binary} = 0x{one.hex} ({one.width} bits, unsigned)"),
        ("packed", f"{lies}; from bit {shift} of byte {first:,}"),
    ]
    rows += [_operation(step) for step in bucket.after] or [("a~", both(one.stored))]
    error = both(bucket.error)
    if bucket.scale:
        unit = {"levels": "scale/L", "counted": "scale/L"}.get(bucket.kind, "s")
        share = bucket.error / (bucket.scale / bucket.levels if unit == "scale/L" else bucket.scale)
        bound = {"affine": "at most s/2", "symmetric": "at most s/2"}.get(bucket.kind, f"below {unit}")
        error = f"{error}: {float(share):+.3f} {unit} ({bound} in exact arithmetic, where nothing saturates)"
    return [*rows, ("error a~ - a", error)]


def _count(block: Block | Shared) -> str:
    return f"{block.elements} values" if block.elements > 1 else "1 value"


def _greatest(block: Block | Shared) -> tuple[str, str]:
    return "max of block", f"{both(block.greatest)} at [{comma(block.at)}]"


def _shared(block: Shared) -> list[tuple[str, str]]:
    """The MX block that the element is in, and its scale."""
    return [
        ("block", f"{_count(block)} along axis {block.axis}"),
        _greatest(block),
        ("scale", f"2^{block.k}, by rule {block.rule} of the maximum"),
    ]


def _block(r: Rounding, block: Block) -> list[tuple[str, str]]:
    """The block that the element is in, and what e and b come to."""
    e = f"{block.exponent}, the smallest with max < 2^e"
    if block.greatest < Fraction(2) ** (block.exponent - 1):
        e = f"{block.exponent}, the least there is"
    rows = [
        ("block", f"[{comma(block.index)}], {_count(block)}"),
        _greatest(block),
        ("exponent e", e),
        ("bits b", f"{block.bits}"),
    ]
    if r.scaled is None:
        return rows
    step = f"2^(e - b + 1) = 2^{r.grid}"
    return [*rows, ("rounded to", f"{block.bits} bits, {r.mode}, steps of {step}")]


def _mx_block(one: Explanation, r: Rounding, block: Block) -> list[tuple[str, str]]:
    """The block of MX that the element is in, and its scale."""
    return [
        ("block", f"[{comma(block.index)}], {block.elements} values"),
        _greatest(block),
        ("scale", f"2^{block.exponent}"),
        ("rounded to", f"{one.format}, {r.mode}, steps of 2^{r.grid} here"),
    ]


def _code(one: Explanation) -> list[tuple[str, str]]:
    if one.rounding is not None and one.rounding.bucket is not None:
        return _packed(one, one.rounding.bucket)
    if one.code is None:
        bits = f"float32 bits {one.hex}" if one.hex else "a quotient: its reader rounds it"
        return [("passed on", bits)]
    word = f" = 0b{one.binary} = 0x{one.hex} ({one.width} bits)" if one.width else ", without bits"
    rows = [("code", f"{one.code:,}{word}")]
    if one.flag:
        rows.append(("stored word", f"{one.flag[0]} {one.flag[1]} {one.flag[2:]} (flag, sign, magnitude)"))
    if one.element:
        rows.append(("element", f"{one.element} (sign, exponent, fraction), times the scale"))
    rows.append(("stands for", f"{one.code:,} * 2^{one.exponent} = {both(one.stored)}"))
    return rows


def fraction(value: Fraction) -> str:
    """'p/q', a power of two below the line as such: '5/2^7'."""
    p, q = value.numerator, value.denominator
    if q == 1:
        return f"{p:,}"
    return f"{p:,}/2^{q.bit_length() - 1}" if q & (q - 1) == 0 and q > 64 else f"{p:,}/{q:,}"


def both(value: Fraction) -> str:
    """The fraction and, where that says more, the decimal."""
    return fraction(value) if value.denominator == 1 else f"{fraction(value)} = {decimal(value)}"


def decimal(value: Fraction) -> str:
    """The value to 20 significant digits, '...' after it where there are more."""
    context = Context(prec=DIGITS)
    near = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return _digits(near) + ("" if Fraction(near) == value else "...")


def root_decimal(square: Fraction) -> str:
    """The root of an exact square, as `decimal`."""
    places = 10 ** (2 * DIGITS)
    root = Fraction(isqrt(square.numerator * places // square.denominator), 10**DIGITS)
    return decimal(root) + ("" if root**2 == square else "..." * (not decimal(root).endswith("...")))


def _digits(number: Decimal) -> str:
    text = format(number, "f") if number == 0 or -8 <= number.adjusted() < DIGITS else str(number)
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text
