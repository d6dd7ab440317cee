"""The reference units: parameters with their ranges, and the ports of the modules that follow.

`examples/rtl/NAME.sv` is the hardware, `intnet.spec.units` the definition; `drafts.py` makes packs of them. A
new unit is an entry here (units of scales: `scales.py`), its circuit there, its vectors in `stimuli*.py`,
`training.py`.
"""

from typing import Any

from intnet.numbers.formats import Constant, Direct, Shift
from intnet.numbers.hexfiles import MOST_BITS
from intnet.packs.ports import Port
from intnet.packs.units.scales import SCALES, limited_port, limits_of_q, rounding
from intnet.packs.units.signals import Choice, Parameters, Range, Scale, Unit, signal
from intnet.packs.units.words import FLAG, K_GC, K_Q
from intnet.spec.microscaling import ELEMENTS
from intnet.spec.small_floats import Float
from intnet.spec.wires import span

# -- the ports of each unit ----------------------------------------------------------------------


SUMS = {"exact": "", "wrap": ", wrapping at each step", "saturate": ", saturating at each step"}


def _ends() -> tuple[Port, Port]:
    return (
        signal("first", 1, "1 at the first beat of a vector", signed=False),
        signal("last", 1, "1 at the last beat of a vector", signed=False),
    )


def _saturated(what: str = "1 where a limit changed q") -> Port:
    return signal("saturated", 1, what, signed=False, direction="out")


def _q_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    grid = scale.get("q", 1 - K_Q)
    wide = p["W"] - p["S"] + (p["S"] > 0)
    return (
        signal("x", p["W"], "a code", exponent=grid - p["S"]),
        signal(
            "q",
            wide,
            f"Q(x): round(x / 2^{p['S']}), ties to even; the range is not limited",
            direction="out",
            exponent=grid,
            format=Direct(1 - grid),
            rounding=rounding("ties_even", None, None),
        ),
    )


def _tensor_signals(p: Parameters) -> tuple[Port, Port]:
    return (
        signal("x", p["W"], "a code of a tensor", exponent=p["EX"]),
        signal("n", p["NB"], "log2 R of the whole tensor, held for all of its words"),
    )


def _sq_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    top = (1 << p["K"] - 1) - 1
    return (
        *_tensor_signals(p),
        signal(
            "q",
            p["K"],
            f"SQ(x): clip(round(x * 2^(EX + {p['K'] - 1} - n)), -{top}, {top}), ties to even",
            direction="out",
            exponent="q.exponent",
            format=Shift(p["K"]),
            rounding=rounding("ties_even", -top, top),
        ),
        _saturated(),
    )


def _cq_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    word = "32 random bits: with f the fraction of dr * x / R above its floor, up iff word < floor(f * 2^32)"
    return (
        *_tensor_signals(p),
        signal("log_dr", 3, "dr = 2^log_dr, held for all words of a tensor", signed=False),
        signal("word", 32, word, signed=False, direction="rnd"),
        signal(
            "q",
            p["DB"],
            "CQ(x): clip(Sr(dr * x / R), -(dr - 1), dr - 1), Sr stochastic",
            direction="out",
            exponent=1 - K_GC,
            format=Constant(K_GC, 1 << p["DB"] - 1),
            rounding=rounding("stochastic", None, None, limit="q.limit", words="word"),
        ),
        _saturated(),
    )


def _flag_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    top = (1 << FLAG.fine) - 1
    return (
        *_tensor_signals(p),
        signal(
            "q",
            FLAG.bits,
            "Flag-Q(x), Sc = 2^(n - 7): {flag, sign, magnitude[6:0]}, value = +-magnitude * "
            "2^(n - 7 - (flag ? 0 : 7)); flag where |x| >= Sc, there clipped to 127; a fine 128 is flag, 1",
            signed=False,
            direction="out",
            exponent="q.exponent",
            encoding="flag",
            format=FLAG,
            rounding=rounding("ties_even", -top, top, lift=FLAG.fine, coarse="q.coarse"),
        ),
        _saturated("1 where the limit changed a coarse q"),
    )


def _r_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    return (
        *_ends(),
        signal("x", p["W"], "a code of a vector", exponent=p["EX"]),
        signal(
            "n",
            p["NB"],
            "log2 R of the vector: EX + the p with 2^(2p-1) <= max^2 < 2^(2p+1); 0 where max is 0",
            direction="out",
        ),
    )


def _mac_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    less = {name: f" - {p[z]}" if p[z] else "" for name, z in (("x", "ZX"), ("w", "ZW"))}
    term = " * ".join(f"({name}{text})" if text else name for name, text in less.items())
    return (
        *_ends(),
        signal(
            "x", p["A"], "a code a lane", lanes=p["LANES"], signed=bool(p["XS"]), exponent=scale.get("x", 0)
        ),
        signal(
            "w", p["B"], "a code a lane", lanes=p["LANES"], signed=bool(p["WS"]), exponent=scale.get("w", 0)
        ),
        signal("bias", p["ACC"], "read at the last beat", exponent=scale.get("bias", 0)),
        *limited_port(f"(bias + sum of {term}{SUMS[p['SUMS']]}) / 2^{p['S']}", p, scale.get("q", p["S"])),
    )


def _block_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    return (
        *_ends(),
        signal("xm", p["M"], "mantissas of a block", lanes=p["BLOCK"], exponent="xe"),
        signal("wm", p["M"], "mantissas of a block", lanes=p["BLOCK"], exponent="we"),
        signal("xe", 8, "exponent of the block xm"),
        signal("we", 8, "exponent of the block wm"),
        *_float32_port("float32(sum over blocks of 2^(xe + we) * sum of xm * wm)", "1 where y is infinite"),
    )


def _float32_port(formula: str, overflow: str, more: str = "", **how: str) -> tuple[Port, Port]:
    """y, a sum rounded once to float32, and whether it is beyond."""
    told = "rounded once; subnormals kept, 0 is +0, a negative underflow -0, beyond float32 infinity"
    made = rounding("ties_even", None, None, sign="y.sign", grid="y.exponent", **how)
    way: dict[str, Any] = {"signed": False, "direction": "out"}
    y = signal("y", 32, f"{formula}, {told}{more}", encoding="float32", rounding=made, **way)
    return y, signal("overflow", 1, overflow, **way)


def _element(name: str, kind: str, lanes: int) -> Port:
    """Of a microscaling format: its words in bits."""
    element = ELEMENTS[kind]
    if not isinstance(element, Float):
        return signal(name, element.wl, f"MX{kind}: codes, in units of 2^-{element.fl}", lanes=lanes)
    e, m, least = element.e, element.m, element.least
    text = f"{kind}: s [{e + m}], e [{e + m - 1}:{m}], f [{m - 1}:0]: (-1)^s 2^(e - {1 - least})"
    text += f" (1 + f/{1 << m}), of e = 0 (-1)^s 2^{least} f/{1 << m}"
    if element.specials == "nan":
        text += f"; {element.greatest + 1:x} is NaN, of either s"
    if element.specials == "ieee":
        text += f"; of e = {(1 << e) - 1} an infinity where f = 0, else NaN"
    return signal(name, element.bits, text, lanes=lanes, signed=False)


def _mx_signals(p: Parameters, scale: Scale) -> tuple[Port, ...]:
    elements = [_element(name, p[choice], p["LANES"]) for name, choice in (("a", "A"), ("b", "B"))]
    scale_ = "E8M0, the scale of {0}: 2^(s{0} - 127), of 255 NaN; read at the last beat"
    scales = [signal(f"s{name}", 8, scale_.format(name), signed=False) for name in ("a", "b")]
    return (
        *_ends(),
        *elements,
        *scales,
        *_float32_port(
            "float32(2^(sa + sb - 254) * sum of a * b), the sum exact",
            "1 where a finite sum made y infinite",
            ". 7fc00000 (NaN) of a scale or an element that is NaN, of an infinity times 0, of products that "
            "are infinities of both signs; else infinities make one of their sign",
            special="y.special",
        ),
    )


# -- which settings are possible -----------------------------------------------------------------


def _wrong_q(p: Parameters) -> str:
    if not 1 <= p["W"] - p["S"] <= 29:
        return f"W - S = {p['W'] - p['S']}: from 1 to 29 bits are left of x"
    return ""


def _wrong_n(p: Parameters) -> str:
    """NB must hold n of every tensor: of the least and the greatest maximum, and 0 of none."""
    low, high = span(p["NB"])
    if not low <= min(0, p["EX"]) <= max(0, p["EX"] + p["W"] - 1) <= high:
        return f"n from {min(0, p['EX'])} to {max(0, p['EX'] + p['W'] - 1)} does not fit NB={p['NB']} bits"
    return ""


def _wrong_mac(p: Parameters) -> str:
    if p["SUMS"] != "exact":
        return ""
    sides = [span(p["A"], bool(p["XS"])), span(p["B"], bool(p["WS"]))]
    zeros = (p["ZX"], p["ZW"])
    most = [max(high - z, z - low) for (low, high), z in zip(sides, zeros, strict=True)]
    need = max((5 * p["LANES"] * most[0] * most[1]).bit_length() + 2, p["OUT"] + p["S"] + 2)
    if p["ACC"] < need:
        return f"ACC={p['ACC']}: sums of 5 beats, a bias and every limit of q need {need} bits"
    return ""


def _wrong_block(p: Parameters) -> str:
    if p["BLOCK"] * p["M"] > MOST_BITS:
        return f"a block of {p['BLOCK'] * p['M']} bits is more than a word's {MOST_BITS}"
    if 1 << p["GUARD"] < p["BLOCK"]:
        needed = (p["BLOCK"] - 1).bit_length()
        return f"GUARD = {p['GUARD']}: a sum over {p['BLOCK']} lanes needs at least {needed}"
    return ""


def _wrong_mx(p: Parameters) -> str:
    if p["K"] < p["LANES"]:
        return f"K = {p['K']}: a beat of {p['LANES']} lanes has more elements than a block"
    return ""


def _tensor_parameters(width: int) -> dict[str, Range]:
    return {"W": Range(width, 4, 48), "EX": Range(-14, -100, 100), "NB": Range(8, 4, 16)}


UNITS: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit(
            "quantize_q",
            "Q(., k): static shift, ties to even, range not limited",
            {"W": Range(24, 4, 48), "S": Range(16, -16, 44)},
            _q_signals,
            _wrong_q,
        ),
        Unit(
            "quantize_sq",
            "SQ(., K): shift by n both ways, symmetrical clip",
            _tensor_parameters(24) | {"K": Range(8, 2, 16)},
            _sq_signals,
            _wrong_n,
        ),
        Unit(
            "quantize_cq",
            "CQ: stochastic, with a 32-bit word as an input, dr = 2^log_dr",
            _tensor_parameters(40) | {"DB": Range(8, 8, 8)},
            _cq_signals,
            _wrong_n,
        ),
        Unit(
            "quantize_flag",
            "Flag-Q of 8 bits, stored in 9",
            _tensor_parameters(24),
            _flag_signals,
            _wrong_n,
        ),
        Unit(
            "r_exponent",
            "n of R = 2^round(log2 max|x|), by integer squares",
            _tensor_parameters(24),
            _r_signals,
            _wrong_n,
        ),
        Unit(
            "mac_requant",
            "sum of products and bias, requantized and clipped",
            {
                "LANES": Range(4, 1, 64),
                "A": Range(8, 2, 16),
                "B": Range(8, 2, 16),
                "ACC": Range(32, 8, 60),
                "S": Range(9, 0, 40),
                "OUT": Range(8, 2, 24),
                "XS": Range(1, 0, 1),
                "WS": Range(1, 0, 1),
                "ZX": Range(0, -(1 << 15), (1 << 16) - 1),
                "ZW": Range(0, -(1 << 15), (1 << 16) - 1),
                "SUMS": Choice("exact", tuple(SUMS)),
                **limits_of_q("ties_even", "saturate_symmetric"),
            },
            _mac_signals,
            _wrong_mac,
        ),
        Unit(
            "block_dot",
            "block float dot product: exact sum, one rounding to float32",
            {"BLOCK": Range(4, 1, 128), "M": Range(8, 2, 8), "GUARD": Range(12, 4, 32)},
            _block_signals,
            _wrong_block,
        ),
        Unit(
            "mx_dot",
            "dot product of two MX blocks: exact sum, one rounding to float32",
            {
                "LANES": Range(4, 1, 32),
                "K": Range(32, 1, 1024),
                "A": Choice("E4M3", tuple(ELEMENTS)),
                "B": Choice("E5M2", tuple(ELEMENTS)),
            },
            _mx_signals,
            _wrong_mx,
        ),
        *SCALES,
    )
}
