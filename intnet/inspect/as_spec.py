"""The one map from the fast code's formats and layers to those of the definition (`intnet.spec`).

    format_of(Shift(8))        formats.Shift(k=8)
    grid(Shift(8), source)     what the whole tensor decides, from its exact extremes
    layer_of(layer, kind)      a layer as data; `KINDS` has the kind of each class
    definition_of(Wageubn)     the module of a method's definition

For what explains, checks or verifies; nothing that trains imports it. A format that has no entry in `FORMATS`
is refused by its name: where it rounds is not defined.
"""

import importlib
from collections.abc import Mapping
from dataclasses import astuple, fields
from fractions import Fraction
from types import ModuleType
from typing import Any

from intnet import layers
from intnet.errors import ConfigError, FormatError
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact, Expression
from intnet.exact.sources import FloatExact
from intnet.layers import Layer, joints
from intnet.methods import METHODS, Method
from intnet.numbers import formats as fast
from intnet.numbers import rounding
from intnet.numbers.small_floats import Float
from intnet.spec import formats as spec
from intnet.spec import microscaling, models, mx_blocks, small_floats
from intnet.spec.curves import curve_bounds, tanh_bounds
from intnet.spec.methods.wageubn_modes import Modes
from intnet.spec.rounding import Mode

# Both have the same fields in the same order.
FORMATS: dict[type, type[spec.Format]] = {
    fast.FixedPoint: spec.FixedPoint,
    fast.Direct: spec.Direct,
    fast.Shift: spec.Shift,
    fast.Flag: spec.Flag,
    fast.Constant: spec.Constant,
    fast.Scaled: spec.Scaled,
}
KINDS: dict[type, str] = {
    layers.Linear: "linear",
    layers.Conv2d: "conv",
    layers.BatchNorm2d: "norm",
    layers.ReLU: "relu",
    layers.Tanh: "tanh",
    layers.Sigmoid: "sigmoid",
    layers.SiLU: "silu",
    layers.MaxPool2d: "max_pool",
    layers.AvgPool2d: "avg_pool",
    layers.AdaptiveAvgPool2d: "adaptive_pool",
    layers.GlobalAvgPool: "mean",
    layers.Flatten: "flatten",
    layers.Dropout: "dropout",
    joints.Join: "join",
    joints.Squeeze: "mean",
    joints.Scale: "scale",
}
WINDOW = ("kernel", "stride", "padding", "groups", "keep")  # of a layer that has them
DIGITS = 210  # bits of an enclosure of a curve
OF_R = (spec.Shift, spec.Flag, spec.Constant)  # whose grid is log2 R(x)


def format_of(format: fast.Format) -> spec.Format:
    """The definition of a format; FormatError for one without, as block float, whose blocks decide."""
    if isinstance(format, fast.OwnFormat):
        fast.kind_of(format)
        return format
    if type(format) not in FORMATS:
        raise FormatError(f"where the format {format} rounds is not told here")
    return FORMATS[type(format)](*astuple(format))


def along_of(format: Along, mode: str = "ties_even") -> mx_blocks.Along:
    """The definition of MX blocks along an axis."""
    made = element_of(format.mx.element)
    return mx_blocks.Along(made, format.mx.scale, mode_of(mode), format.axis, format.groups)


def element_of(element: fast.FixedPoint | Float) -> microscaling.Element:
    """The definition of what MX blocks hold."""
    kind = spec.FixedPoint if isinstance(element, fast.FixedPoint) else small_floats.Float
    return kind(*astuple(element))


def mode_of(name: str) -> Mode:
    """A rounding mode as the definition takes it: of a user's own the rule."""
    found = rounding.mode(name)
    return rounding.HLS_ALIASES.get(name, name) if isinstance(found, int) else found


def grid(format: spec.Format, source: Expression) -> int:
    """What a whole tensor decides: by the definition, from exact extremes that the fast code looked for."""
    if isinstance(format, spec.FixedPoint | spec.Direct):
        return format.grid_of(0, 0)
    if not isinstance(source, Exact | FloatExact):  # a root or a curve, whose maximum is no rational
        if isinstance(format, OF_R):
            return source.log2_max()
        raise FormatError(f"a root or a curve has no exact extremes, by which {format} could scale it")
    if isinstance(format, OF_R):
        top = source.max()
        return format.grid_of(-top, top)
    greatest, least = source.extremes()
    if isinstance(format, fast.OwnFormat):
        return format.grid((least, greatest))
    return format.grid_of(least, greatest)


def definition_of(method: type[Method]) -> ModuleType | None:
    """The module of a method's definition, of a user's own what it names `spec`; None where there is none."""
    own = getattr(method, "spec", None)
    if own is not None:
        return own
    if METHODS.get(method.name) is method and method.name not in METHODS.origins:
        return importlib.import_module(f"intnet.spec.methods.{method.name}")
    return None


def settings_of(definition: ModuleType, method: str, options: Mapping[str, Any]) -> Any:
    """A definition's `Settings` of a run's options; ConfigError where a user's own does not take them."""
    try:
        made = definition.Settings.from_options(_with_rules(definition.Settings, options))
        for key, value in options.items():
            if type(value) is int and type(getattr(made, key, value)) is float:
                raise TypeError(f"{key}={value} is read as a float")
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{method}: its definition does not take the options: {type(error).__name__}: {error}; "
            "Settings has a field for each, and READ, where it is no float, what makes it of its text, as "
            'READ = float32.Settings.READ | {"k": int}'
        ) from error
    return made


def _with_rules(settings: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose values are rounding modes as the definition takes them."""
    own = issubclass(settings, Modes) if isinstance(settings, type) else False
    names = [one.name for one in fields(Modes)] if own else []
    return {
        name: mode_of(str(value)) if name.partition("@")[0] in names else value
        for name, value in options.items()
    }


def layer_of(layer: Layer, kind: str) -> models.Layer:
    """A layer as data; one whose kind is '' is a name only."""
    found: dict[str, Any] = {name: getattr(layer, name) for name in WINDOW if hasattr(layer, name)}
    outputs, *taps = layer.parameters[0].shape if layer.takes_weight else (0,)
    found |= {"kernel": tuple(taps[1:])} if taps[1:] else {}
    found |= {"kernel": layer.output} if isinstance(layer, layers.AdaptiveAvgPool2d) else {}
    bias = any(parameter.symbol == "b" for parameter in layer.parameters)
    return models.Layer(kind, layer.name, outputs, bias=bias, **found)


def curve(name: str, x: Fraction) -> Fraction:
    """tanh, sigmoid, silu or silu's slope at x, which is irrational but at 0: within 2^-200."""
    if x == 0:
        return Fraction(int(name in ("sigmoid", "slope")), 2)
    if name == "tanh":
        size = tanh_bounds(abs(x), DIGITS)[0]
        return size if x > 0 else -size
    return curve_bounds(name, x, DIGITS)[0]


def log2(step: Fraction) -> int:
    """The exponent of a power of two, as every step of a grid is."""
    return step.numerator.bit_length() - step.denominator.bit_length()
