"""CONTRACT.md's chapters on what is computed: the graph of the layers, and the rule of every data path.

    graph(manifest)     which layer reads what, whose error it gets, where its state stands
    rules(manifest)     of each port the equation that gives it ahead of its rounding

The equations are the definition's own texts (`spec`: geometry, batch_norm, float_batch_norm, elementwise,
float32, methods), each beside the code that it speaks of; here are the ports' names.
"""

import re
from collections.abc import Iterator, Sequence

from intnet.packs.ports import HEADS, INFERENCE, LOSS, Json, step_prefix
from intnet.spec import (
    batch_norm,
    elementary,
    elementwise,
    float32,
    float_batch_norm,
    geometry,
    inference,
    loss,
    pooling,
)
from intnet.spec.formats import Scaled
from intnet.spec.methods import METHODS, packing, wageubn
from intnet.spec.methods.float_master import rules as float_rules
from intnet.spec.methods.step import of_layer

_GRAPH = """\
## Graph

What a layer reads, and the error at its output, come from another layer of the pack or are inputs. The output
of a conv or a linear layer is its x1, of a norm its x3, of the others their x4; what they hand on, as the
error of the layer that they read, is e4, the value of `handed`, and e1 (of silu e1q). None of it is rounded
on the way: it is rounded where it is stored. Where two are added the sum is exact, in binary32 one addition.
"""
_RULES = """\
## Rules

A symbol in the rule of a port is the port of that name of its layer, else of the layer that it reads, else of
the one whose error it gets; a parameter or its state (`.old`) is the one before the step. x0, of a norm x1,
is what the layer reads; e3 of a conv or linear layer, e1 of a norm and e0 of the others is the error at its
output. What has no rule here, and how each of them is rounded where it is stored, stands under "Where they
come from".
"""
_PASSED = (
    "Of pools, flatten, dropout and join that is the value of `handed` too; v is what they read, e the error"
    " at their output, stored as e0 where there is a port of it.\n"
)
_SCALED = (
    "Of scale it is the value of `handed` too, and for the layer that made its factors s that of `handed to"
    " the factors`.\n"
)
_INFERRED = (
    "This is an inference: nothing goes back. Parameters are those behind the last step, running_mean and"
    " running_var the statistics that batch norm reads.\n"
)
_WORDS = {
    "output": "the output of",
    "handed": "what is handed on by",
    "handed factors": "what is handed to the factors by",
}
_GIVEN = {"value": "what is read by", "error": "the error at the output of"}
_SUMMED = ("x1", "e4", "gW", "gb")
_BESIDE = pooling.RULES | elementwise.MOVED
_BY_ERROR = ("max_pool", "adaptive_pool")  # whose way back is of the error's kind, not of the value's


def _steps(manifest: Json) -> Iterator[tuple[str, Json, Json]]:
    """(prefix of the ports' names, the step, the layer) of every layer of every step."""
    steps = manifest["about"].get("replay", ())
    for step in steps:
        for one in step["layers"]:
            start = step_prefix(step["step"], manifest["generator"])
            yield f"{start}{one['layer']}/", step, one


# -- the graph ---------------------------------------------------------------------------------


def graph(manifest: Json) -> Iterator[str]:
    """The layers, how they hang together, and ports under two names."""
    rows = list(_steps(manifest))
    if not rows:
        return
    yield _GRAPH
    if any(one["kind"] in _BESIDE for _, _, one in rows):
        yield _PASSED
    if any("factors" in one for _, _, one in rows):
        yield _SCALED
    if manifest["generator"]["kind"] == INFERENCE:
        yield _INFERRED
    yield "| layer | is | reads | error at its output | state before the step |"
    yield "|---|---|---|---|---|"
    for prefix, _, one in rows:
        reads, error = (_origin(one, *keys) for keys in (("sources", "value"), ("errors", "gradient")))
        state = ", ".join(
            f"{key.replace(':', ' ').strip()} `{json['tensor']}`" for key, json in one["before"].items()
        )
        if "factors" in one:
            reads += f"; its factors s: {_origin(one, 'factor_sources', 'factors')}"
        kind = f"{one['kind']}{_window(one)}" + ", hands nothing on" * (not one["wanted"])
        yield f"| `{prefix[:-1]}` | {kind} | {reads} | {error} | {state or '-'} |"
    yield ""
    aliases = manifest["about"].get("aliases", {})
    if aliases:
        yield "The same words under another name:\n"
        yield from (f"- `{name}` is `{other}`" for name, other in aliases.items())
        yield ""
    missing = manifest["about"].get("not written", {})
    if missing:
        yield "No port of this pack:\n"
        yield from (f"- `{name}`: {reason}" for name, reason in missing.items())
        yield ""


def _origin(one: Json, origins: str, key: str) -> str:
    """Where a layer's value or error comes from."""
    if one[key] is None:
        return "none"
    if one[origins]:
        words = _WORDS | _GIVEN
        return " + ".join(f"{words[what]} `{layer}`" for what, layer in one[origins])
    return expression(one[key])


def _window(one: Json) -> str:
    """How a convolution or a pool walks over its input."""
    window = dict(one["window"])
    if "padding" in window:
        sides = geometry.pads(window.pop("padding"))
        window |= dict(zip(("top", "bottom", "left", "right"), sides, strict=True))
    if "stride" in window:
        window |= dict(zip(("sh", "sw"), geometry.both(window.pop("stride")), strict=True))
    if "output" in window:
        window |= dict(zip(("oh", "ow"), window.pop("output"), strict=True))
    return "".join(f", {name} {value}" for name, value in window.items())


def expression(json_: Json) -> str:
    """What `expressions.Dump` wrote, as a formula of ports' codes."""
    if "terms" not in json_:
        return f"`{json_['tensor']}`" + (f" / {json_['denominator']}" if "denominator" in json_ else "")
    parts = [_term(term) for term in json_["terms"]]
    if json_["offset"] != 0:
        parts.append(_part(json_["offset"]))
    total = " + ".join(parts)
    if len(parts) > 1:
        total = f"({total})"
    if json_["denominator"] != 1:
        total += f" / {_part(json_['denominator'])}"
    total += f" * 2^{json_['exponent']}"
    return f"max({total}, 0)" if json_["relu"] else total


def _term(term: Json) -> str:
    factor = "" if term["factor"] == 1 else f"{_part(term['factor'])} * "
    return f"{factor}`{term['port']}`" + (f" * 2^{term['shift']}" if term["shift"] else "")


def _part(part: int | str) -> str:
    """A port of one number a channel, or a number; a negative one in brackets."""
    return f"`{part}`" if isinstance(part, str) else f"({part})" if part < 0 else str(part)


# -- the rules ---------------------------------------------------------------------------------


def rules(manifest: Json) -> Iterator[str]:
    """The equation of every path of every layer; the steps of a chain have the same, but for updates."""
    rows = list(_steps(manifest))
    if not rows:
        return
    ports = {port["name"]: port for port in manifest["ports"]}
    told: dict[str, tuple[Json, Json]] = {}  # layer -> its ports, of what only some steps have too; itself
    for prefix, _, one in reversed(rows):
        later = told.get(one["layer"], ({}, one))[0]
        told[one["layer"]] = later | _mine(manifest, ports, prefix), one
    yield _RULES
    if any(one["kind"] in ("conv", "linear") for _, _, one in rows):
        yield f"{geometry.BORDERS}\n"
    if any(one["kind"] == "norm" for _, _, one in rows):
        yield f"{batch_norm.SUMS}\n"
    if any(port["encoding"] == "float32" for port in ports.values()):
        yield f"{float32.ORDER}\n"
    yield from _sequences(ports, rows)
    for layer, (mine, one) in reversed(told.items()):
        steps = [step for _, step, other in rows if other["layer"] == layer]
        yield f"### {layer}\n"
        yield from (f"- {line}" for line in _layer(manifest, ports, mine, one))
        yield from (f"- {line}" for line in _updates(manifest, steps, one, mine))
        yield ""


def _mine(manifest: Json, ports: Json, prefix: str) -> Json:
    """The ports of a layer by their paths, those under another layer's name too."""
    aliases = manifest["about"].get("aliases", {})
    mine = {name.removeprefix(prefix): ports[name] for name in ports if name.startswith(prefix)}
    return mine | {
        name.removeprefix(prefix): ports[other] for name, other in aliases.items() if name.startswith(prefix)
    }


def _layer(manifest: Json, ports: Json, mine: Json, one: Json) -> Iterator[str]:
    """The rules of one layer, but for its update."""
    kind = one["kind"]
    if kind in ("conv", "linear"):
        yield from _products(kind, mine)
    elif kind == "norm":
        yield from _norm(mine, one, manifest["generator"])
    elif kind in elementwise.RULES:
        yield from _activation(kind, ports, mine)
    elif kind in _BESIDE:
        yield from _beside(kind, ports, mine, one)
    elif kind in HEADS:
        yield from _head(kind, manifest["generator"])
    else:
        yield f"the class {kind} is no layer of the definition, which has no rule of it"
    known = getattr(METHODS.get(manifest["generator"]["method"]), "RULES", {})
    for path, rule in known.items():
        if path in mine and mine[path]["direction"] != "in":
            yield f"`{path}` = {rule}"
        elif path == "G" and "window" in mine:  # no port behind a switch, which reads what it was
            yield f"{path} = {rule}"


def _floating(port: Json) -> str:
    return "; in binary32" * (port["encoding"] == "float32")


def _products(kind: str, mine: Json) -> Iterator[str]:
    """x1, e4, gW, gb, of the operands that the formulas of the ports name."""
    equations = geometry.CONV if kind == "conv" else geometry.LINEAR
    bias = next((name for name in ("bq", "b.old") if name in mine), "")
    for path in _SUMMED:
        if path not in mine or mine[path]["direction"] == "in":
            continue
        operands = {"x": "x0", "w": "Wq" if "Wq" in mine else "W", "e": "e3"}
        for name in re.findall(r"\b(?:W(?!L\b)|x0|e3)\w*", mine[path]["meaning"]):
            operands[name[0].lower()] = name
        text = equations[path].format_map(operands)
        if path == "x1" and bias:
            text += f" + {bias.removesuffix('.old')}[o], added last"
        if path == "gW" and "x0s" in mine:
            text += _read_back(mine, mine[path]["encoding"] == "float32")
        yield f"`{path}`{geometry.INDEXED[kind][path]} = {text}{_floating(mine[path])}"


def _read_back(mine: Json, floating: bool) -> str:
    """In what form a product reads what the tape packed of x0: as it is where it is one of binary32."""
    port = mine.get("x0") or mine.get("x") or {"format": None}
    kind = (port["format"] or {"kind": ""})["kind"]
    plain = kind != "BlockFloat" and (floating or not kind)
    return "" if plain else f"; {packing.READ.get(kind, packing.READ[''])}"


def _norm(mine: Json, one: Json, given: Json) -> Iterator[str]:
    """Batch norm's, of integers or of float32, in training or in inference."""
    known = "sigma" in mine or "scale" in mine
    names = {name: f"{name}q" if f"{name}q" in mine else name for name in ("gamma", "beta")}
    names["x2"] = "x2s" if "x1s" in mine else "x2"  # the way back has what the tape held of x1
    rules = (batch_norm if known else float_batch_norm).RULES
    if given["kind"] == INFERENCE and given["options"].get("statistics") != "batch":
        rules = inference.INTEGER_NORM if known else inference.FLOAT_NORM
        rules = inference.FOLDED_NORM if "scale" in mine else rules
    if "scale" in mine:
        yield Scaled.RULE
    for path, rule in rules.items():
        shown = path in mine and mine[path]["direction"] != "in"
        if shown or (path == "handed" and one["wanted"] and one["gradient"] is not None):
            label, told = f"`{path}`" if shown else path, rule.format_map(names)
            told += "; x2s = (x1s - mu) * r" * ("x2s" in told)
            yield f"{label} = {told}" + "; in binary32" * (not known)


def _activation(kind: str, ports: Json, mine: Json) -> Iterator[str]:
    """What an activation gives, and hands on."""
    forward, back = elementwise.RULES[kind]
    floating = {"relu": elementwise.RELU32} | elementwise.CURVE_RULES32
    if "x4" in mine:
        copied = kind in elementwise.CURVE_RULES32 and _by_sequence(ports, mine["x4"])
        yield f"`x4` = {forward}{_floating(mine['x4'])}" + "; of x rounded to binary32" * copied
    for path in ("e1", "e1q"):
        if path in mine:
            rule = floating[kind] if mine[path]["encoding"] == "float32" else back
            held = rule.format(x="x3s" if "x3s" in mine else "x")  # on the tape, of silu
            yield f"`{path}` = {held}{_floating(mine[path])}"


def _beside(kind: str, ports: Json, mine: Json, one: Json) -> Iterator[str]:
    """What a pool gives and hands on, and what flatten, dropout and join do."""
    value, error = (_binary32(ports, one[key]) for key in ("value", "gradient"))
    for place, told in _BESIDE[kind].items():
        path, _, index = place.partition("[")
        floating = error if path == "handed" and kind in _BY_ERROR else value
        if path.startswith("handed") and one["gradient"] is None:
            continue
        label, rule = f"`{path}`" if path in mine else path, told[floating]
        if kind == "scale" and "x0s" in mine:  # the factors' gradient reads what the tape held
            held = rule.replace("* v[n, y, x, c] over", "* x0s[n, y, x, c] over")
            rule = held + _read_back(mine, value or error) * (held != rule)
        label += f"[{index}" * bool(index)
        if kind == "mean" and path == "handed" and "e0" in mine:  # of an image that another layer reads too
            label += ", stored as `e0` (here not the error at the output),"
            rule = rule.removesuffix(", not rounded")
        yield f"{label} = {rule}{'; in binary32' * floating}"


def _binary32(ports: Json, given: Json | None) -> bool:
    """Whether a value is binary32, and no quotient of it."""
    if given is None or "tensor" not in given or "denominator" in given:
        return False
    return bool(ports[given["tensor"]]["encoding"] == "float32")


def _head(kind: str, given: Json) -> Iterator[str]:
    """What ends a network."""
    if kind == LOSS and given["method"] in METHODS:
        settings = METHODS[given["method"]].Settings.from_options(given["options"])
        on, off = (
            f"0x{float32.bits_of(float32.units(v)):08x}"
            for v in loss.targets(settings.label_smoothing, given["classes"])
        )
        yield f"l is an image's row of logits, label its class, N how many images; on = {on}, off = {off}"
    for path, rule in (loss if kind == LOSS else inference).RULES.items():
        yield f"`{path}` = {rule}" + "; in binary32" * (path not in ("logits", "class"))


def _by_sequence(ports: Json, x4: Json | None) -> bool:
    """Whether a curve is one of binary32, of whatever its layer reads."""
    return x4 is not None and _binary32(ports, x4["rounding"].get("source"))


def _sequences(ports: Json, rows: Sequence[tuple[str, Json, Json]]) -> Iterator[str]:
    """The functions that a pack computes in float32."""
    floating = {one["kind"] for _, _, one in rows if one["kind"] == LOSS or _binary32(ports, one["value"])}
    floating |= {one["kind"] for prefix, _, one in rows if _by_sequence(ports, ports.get(f"{prefix}x4"))}
    names = dict.fromkeys(
        name for kind in elementary.SEQUENCES_OF if kind in floating for name in elementary.SEQUENCES_OF[kind]
    )
    if names:
        yield (
            "These functions of a binary32 are sequences of operations of binary64, each rounded to nearest,"
            " ties to even; the last result is rounded to binary32 once more:\n"
        )
        yield from (f"- {elementary.SEQUENCES[name]}" for name in names)
        yield ""


def _updates(manifest: Json, steps: Sequence[Json], one: Json, mine: Json) -> Iterator[str]:
    """How float32 parameters move, by step where the numbers differ; of integers each port says it."""
    moved = [
        name
        for name in ("W", "b", "gamma", "beta")
        if mine.get(f"{name}.old", {}).get("encoding") == "float32"
    ]
    given = manifest["generator"]
    if not moved:
        return
    if given["method"] not in METHODS:
        yield f"update of {', '.join(moved)}, in binary32: by method `{given['method']}`; no rule is known"
        return
    settings = METHODS[given["method"]].Settings.from_options(given["options"])
    told: dict[str, list[str]] = {}  # equations -> the steps that have them
    for step in steps:
        if "rates" in step:
            rates = step["rates"]
            waiting = step.get("method", {}).get("waiting", {"values": [0]})["values"][0]
            lines = float_rules(settings, rates["lr"], rates["t"], tuple(rates["penalties"]), waiting)
        else:
            lines = wageubn.rules32(of_layer(settings, one["layer"]), step["epoch"])
        told.setdefault("; ".join(lines), []).append(str(step["step"]))
    gradients = ", ".join(f"of {name} {_gradient(name, mine)}" for name in moved)
    head = f"update of p = {', '.join(moved)}, in binary32; g is the gradient, {gradients}: "
    for line, having in told.items():
        yield f"in step {', '.join(having)}: " * (len(told) > 1) + head + line


def _gradient(name: str, mine: Json) -> str:
    """The port by which a parameter moves: the last that is made of its gradient, adapt's of length 1."""
    ports = (f"g{name}n", f"g{name}q", f"g{name}")
    return next((f"`{port}`" for port in ports if port in mine), "that of its layer")
