"""WAGEUBN: training with 8-bit integers in every data path (Yang et al., 2020).

One layer is convolution, batch norm, ReLU; symbols, equation numbers and Algorithms 1 and 2 are the
paper's. `Rules` is the whole method: which quantizer (`exact/quantize.py`) stands on which path of a layer.

    forward   Wq -> x1 = Wq * x0 -> mu, sigma -> x2 -> x3 = gammaq*x2 + betaq -> x4 = QA(relu(x3))
    backward  e0 = QE1(e4 of the next layer) -> e1 = e0 where x3 > 0 -> e2 = e1*gammaq
              -> e3 = QE2(dL/dx1) -> e4 = Wq^T e3;   gW = e3 x0^T, ggamma = sum(e1*x2), gbeta = sum(e1)
    update    Acc = Mom*Acc_q + g_q,  W <- W - lr*Acc (Eq. 19-24), exact on the grid 2^-23

Where the paper is silent or ambiguous, `DEVIATIONS` says what is done here and why.

Defined by `spec/methods/wageubn.py: Step`, `spec/methods/wageubn.py: first`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from intnet.errors import ConfigError, ContainerError
from intnet.exact.expressions import Exact, add, exact
from intnet.exact.quantize import quantize
from intnet.methods import symbols, wageubn_block
from intnet.methods.float_master import sgd_momentum
from intnet.methods.method import LayerLike, Method, Parameter, Update, to_float32
from intnet.methods.options import of_layer, takes
from intnet.methods.wageubn_rules import INTEGER_BITS, Rules, read_by
from intnet.methods.wageubn_widths import MODES, Widths
from intnet.methods.wageubn_words import as_memory, joined, split
from intnet.numbers import fp32
from intnet.numbers.formats import Direct, FixedPoint, Format, Shift
from intnet.numbers.fp32 import check_finite
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels.combine import combine

EDGE_BITS = 16  # widths of the first and last layer under edges=fixed16
TOGETHER = 1 << 17  # weights that are updated at once, a last parameter apart: what a cache holds


class Wageubn(Method):
    """Full 8-bit integer training (Yang et al. 2020).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "wageubn"
    exact_gradients = True
    SYMBOLS = symbols.WAGEUBN
    BY_LAYER = (
        "k_e2", "e2", "saturate", "lr", "dr", "weight_decay", "k_w", "k_a", "k_e1", "k_gamma", "k_beta",
        "k_bn", "k_mu", "k_sigma", "k_acc", "k_mom", "k_lr", "mom",
        *MODES,
    )  # fmt: skip
    LATER = ("k_e2", *MODES)

    DEVIATIONS: ClassVar[dict[str, str]] = {
        "eps_q": "the paper gives no value: 2^-15, the LSB of sigma_q, added to sigma_q",
        "edges": "first and last layer are float32 as in sec. IV-A, the first output rounded once to 2^-14, "
        "so that batch norm sees fixed point (but: first=block); edges=fixed16 keeps both in 16-bit integers",
        "e3 of the first layer": "that layer is not quantized: its weight gradient reads the exact dL/dx1, "
        "rounded once to float32, with first=block that of float32",
        "ties": "'the nearest' in print: ties to even. R(0) is 1; (9)'s second argument is the deviation",
        "(17)": "the coarse grid ends at +-(2^(k-1) - 1), as in figure 4; the printed limits do not fit it",
        "m1, m2": "the two batch means of the backward pass are stored words, 16 bits below the LSB of e2",
        "batch norm gradient": "printed as an element-wise product; here mu and sigma carry gradient (the "
        "full derivative), as in the authors' program; eps is part of sigma",
        "inference": "the paper drops moving averages and says no more: running means of mu_q and sigma_q^2, "
        "r <- r + (x - r)*2^-3 at exponent -31; statistics=batch uses the batch's own",
        "saturation of W": "stored weights saturate at +-(1 - 2^-23), their 24 bits; gamma and beta do not",
        "weight decay": "the paper has none; weight_decay=s adds 2^-s * W exactly to gW, ahead of CQ: "
        "the update still lands on the grid of W",
        "bias": "the paper's layers have none; a hidden layer's is treated as beta is; the forward copy of "
        "an edge's (fixed16) is clipped to +-(1 - 2^-15)",
        "first block": "the paper's layer is convolution, batch norm and activation, and the first is not "
        "quantized; here its convolution alone is float32, unless first=block: then its batch norm and "
        "activation are too, x4 is stored after them, and the error at it is rounded once to float32",
        "float layers' optimizer": "SGD with the same momentum and learning rate, in float32",
        "residual joins": "the exact x3 and the shortcut are added ahead of the ReLU, which stores x4; their "
        "error is stored once, as e0",
        "pools, dropout": "maxima are exact; means of windows, and what dropout scales, are stored as "
        "activations are; the mean of a whole map stays exact for the layer after it",
        "tanh, sigmoid": "from the exact x3, stored as x4; e1 is exact, not stored",
        "no batch norm": "a layer without one hands on its exact sum, which the activation stores",
        "schedule": "constant; the paper's lr falls at epochs 30 and 60 from 26 * 2^-9, dr=128,64@30",
        "silu": "the paper has ReLU, whose derivative is 0 or 1; that of silu is stored in the format of an "
        "activation, and e1 = e0 times it by QE1: the backward pass is exact on stored operands of 8 bits",
        "saturate": "Eq. 6 has no range; saturate=I limits activations to I integer bits and other direct "
        f"paths to {INTEGER_BITS} (else 0), so that nominal widths are true; "
        "the first layer's output, float32 rounded to 2^-14, keeps its range",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options:
        """e2: of e3, flag8 or a width of SQ, as 16. k_e2: its width in place of that in e2. edges: float32 or
        fixed16. first: what of the first block is float32, its weight layer, or its batch norm and activation
        too.

        saturate: off, or the integer bits of activations. lr: learning rate codes of k_lr bits, code *
        2^(1-k_lr), by epoch; dr: range of CQ by epoch, powers of two. weight_decay: off, or s for 2^-s.
        statistics: running or batch, for inference. k_w .. k_lr: widths of section IV-A; those of gradients
        and of stored weights follow by (22) and (24). mom: the momentum's code of k_mom bits. r_w .. r_acc:
        how what has these widths rounds, gW by r_gw; inference draws no words: what is stochastic rounds to
        nearest, ties to even.
        All but edges, first and statistics take a layer pattern: k_e2@layer2.*=6.
        """

        e2: str = "flag8"
        k_e2: int | None = None
        edges: Literal["float32", "fixed16"] = "float32"
        first: Literal["layer", "block"] = "layer"
        saturate: int | None = None
        lr: str = "26"
        dr: str = "128"
        weight_decay: int | None = None
        statistics: Literal["running", "batch"] = "running"
        k_w: int = 8
        k_a: int = 8
        k_e1: int = 8
        k_gamma: int = 8
        k_beta: int = 8
        k_bn: int = 16
        k_mu: int = 16
        k_sigma: int = 16
        k_acc: int = 13
        k_mom: int = 3
        k_lr: int = 10
        mom: int = 3
        r_w: str = "ties_even"
        r_a: str = "ties_even"
        r_e1: str = "ties_even"
        r_e2: str = "ties_even"
        r_gamma: str = "ties_even"
        r_beta: str = "ties_even"
        r_bn: str = "ties_even"
        r_mu: str = "ties_even"
        r_sigma: str = "ties_even"
        r_gw: str = "stochastic"
        r_ggamma: str = "ties_even"
        r_gbeta: str = "ties_even"
        r_acc: str = "ties_even"

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        self._rules: dict[Any, Rules] = {}  # by options, and by the name of a layer
        ordinary = self._of(o)
        self.k, self.formats = ordinary.k, ordinary.formats  # where no option of a layer says otherwise
        if o.first == "block":
            wageubn_block.check_edges(o.edges)
            self.SYMBOLS = {**self.SYMBOLS, **symbols.FIRST_BLOCK}
        self.running_statistics = self.options.statistics == "running"
        self.copies: dict[Parameter, tuple[Any, QTensor]] = {}  # value, its forward copy: of one pass

    # -- which quantizer stands where -------------------------------------------------------

    def _of(self, options: Any) -> Rules:
        if options not in self._rules:
            self._rules[options] = Rules(options)
        return self._rules[options]

    def rules(self, layer: LayerLike) -> Rules:
        """What the options make of a layer; the same object for all layers with the same options."""
        if layer.name not in self._rules:
            try:
                self._rules[layer.name] = self._of(of_layer(self.options, self.overrides, layer.name))
            except ConfigError as error:
                raise ConfigError(f"{error} (of layer {layer.name})") from None
        return self._rules[layer.name]

    def mode(self, layer: LayerLike, path: str) -> str:
        """How a path rounds now. Defined by `spec/methods/wageubn_modes.py: Modes.mode`."""
        mode = self.rules(layer).modes.get(path, "ties_even")
        return mode if self.training or mode != "stochastic" else "ties_even"

    def store(
        self, layer: LayerLike, path: str, value: Any, format: Format, rounding: str = "", stream: str = "",
        operands: Exact | None = None,
    ) -> QTensor:  # fmt: skip
        """As `Method.store`; rounding: where it is not given, the path's `mode`."""
        rounding = rounding or self.mode(layer, path)
        return super().store(layer, path, value, format, rounding, stream, operands)

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """CQ rounds stochastically, one stream a weight, and each path of which options say so.

        Defined by `spec/methods/wageubn.py: Step.stream_of`.
        """
        drawn = [
            f"{layer.name}/{path}"
            for layer in layers
            for path, mode in self.rules(layer).modes.items()
            if mode == "stochastic" and path != "gWq"
        ]
        return super().streams(layers) + [f"{layer.name}/gW" for layer in layers] + drawn

    def follow(self, layers: Sequence[Any]) -> None:
        """ConfigError where options of a layer do not go together, or a first block cannot be float32."""
        super().follow(layers)
        for layer in layers:
            rules = self.rules(layer)
            if layer.edge == "first" and self.options.edges == "float32":
                rules.first_output()
            if not self._in_block(layer):
                rules.check_modes(layer)
        if self.options.first == "block":
            wageubn_block.check_model(layers)
        last = max((i for i, layer in enumerate(layers) if layer.takes_weight), default=len(layers))
        self._behind_last = [layer.name for layer in layers[last:] if layer.normalizes]

    def keys_of(self, layer: LayerLike) -> set[str]:
        """As options by layer: what stands on none of its paths it does not read."""
        meets_float = layer.edge == "first" or layer.name in self._behind_last
        meets_float &= self.options.edges == "float32" and not self._in_block(layer)
        return read_by(layer, self._floating(layer), meets_float)

    def _in_block(self, layer: LayerLike) -> bool:
        return self.options.first == "block" and layer.first_block

    def _floating(self, layer: LayerLike) -> bool:
        return self._in_block(layer) or (layer.edge != "" and self.options.edges == "float32")

    # -- parameters -------------------------------------------------------------------------

    def initialize(self, layer: LayerLike, parameter: Parameter, value: np.ndarray) -> None:
        """(9): W = clip(Q(W, kWU), -1 + d, 1 - d); gamma and beta on the same grid, unlimited.

        Defined by `spec/methods/wageubn.py: first`.
        """
        if self._floating(layer):
            parameter.value = value
            return
        symbol, where = parameter.symbol, f"{layer.name}/{parameter.symbol}"
        parameter.value = as_memory(self.store(layer, symbol, value, self.rules(layer).memory(symbol)), where)
        zeros = np.zeros(parameter.shape, np.int32)
        exponent = self.rules(layer).formats["Accq"].exponent  # type: ignore[union-attr]
        parameter.slots = {"Accq": QTensor(zeros, exponent)}  # type: ignore[arg-type]

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """(10), (13): Wq, gammaq, betaq."""
        if self._floating(layer):
            return self.passes(
                layer,
                f"{parameter.symbol}q",
                check_finite(parameter.value, f"{layer.name}/{parameter.symbol}"),
            )
        value, copy = self.copies.pop(parameter, (None, None))
        if copy is not None and value is parameter.value:
            return copy
        format = self._weight_format(layer, parameter)
        return self.store(layer, f"{parameter.symbol}q", parameter.value, format)

    def begin_pass(self, layers: Sequence[Any]) -> None:
        """(10), (13) of many small parameters at once; `weight` makes the others, and what is observed."""
        self.copies = {}
        for group in self._groups([(layer, p) for layer in layers for p in layer.parameters]):
            layer, parameters = group[0][0], [parameter for _, parameter in group]
            format = self._weight_format(layer, parameters[0])
            mode = self.mode(layer, f"{parameters[0].symbol}q")
            copy = quantize(joined([p.value for p in parameters]), format, rounding=mode)
            if copy.status is not None and not copy.status.saturated:  # `weight` counts it, by layer
                bound = copy.bound if isinstance(format, FixedPoint) else None
                parts = zip(parameters, split(copy, [p.shape for p in parameters], bound), strict=True)
                self.copies |= {parameter: (parameter.value, part) for parameter, part in parts}

    def _groups(self, members: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """(layer, parameter, ..) that one vector may hold, of one format and of several parameters.

        Not those that somebody observes, an event is of one parameter, nor those that draw words.
        """
        found: dict[Any, list[list[tuple[Any, ...]]]] = {}
        sizes: dict[Any, int] = {}  # elements of the last group of each kind
        for one in () if self.observers else members:
            layer, parameter = one[:2]
            modes = [self.mode(layer, path) for path in (f"{parameter.symbol}q", "Accq")]
            if self._floating(layer) or "stochastic" in modes:
                continue
            format, rules = self._weight_format(layer, parameter), self.rules(layer)
            same = (parameter.symbol == "W", format, rules, modes[0])
            if sizes.get(same, TOGETHER) >= TOGETHER:
                found.setdefault(same, []).append([])
                sizes[same] = 0
            found[same][-1].append(one)
            sizes[same] += math.prod(parameter.shape)
        return [group for kind in found.values() for group in kind if len(group) > 1]

    def _weight_format(self, layer: LayerLike, parameter: Parameter) -> Format:
        if layer.edge:
            return FixedPoint(EDGE_BITS, EDGE_BITS - 1, overflow="saturate_symmetric")
        return self.rules(layer).formats[parameter.symbol]

    # -- forward and backward ---------------------------------------------------------------

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """Algorithm 1. x0, x1 and x3 of hidden layers are exact; the rest is rounded here.

        Defined by `spec/nets.py: Walk._integer_norm`.
        """
        if self._in_block(layer) and path != "x0":
            return self._block_activation(layer, path, value)
        if layer.edge:
            return self._edge_activation(layer, path, value)
        rules = self.rules(layer)
        format = rules.formats.get(path)
        if path == "x0" and not _within(
            value, *rules.read
        ):  # no activation before it, or one of another grid
            format = rules.formats["x4"]
        elif path == "x1" and isinstance(value, np.ndarray):  # a float layer stands before it
            format = rules.first_output()
        return self.passes(layer, path, value) if format is None else self.store(layer, path, value, format)

    def _block_activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """float32 up to x4, which the integers after the first block read.

        Defined by `spec/methods/wageubn.py: Step.format_of`.
        """
        value = wageubn_block.floats(layer, value)
        if path == "x4":
            return self.store(layer, path, value, self.rules(layer).formats[path])
        return self.passes(layer, path, value)

    def _edge_activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0 and x1 of the first and last layer."""
        if path == "x0" and self.options.edges == "fixed16":
            return self.store(layer, path, value, Direct(EDGE_BITS))
        if path == "x0":
            return self.passes(layer, path, check_finite(to_float32(value), f"{layer.name}/x0"))
        if layer.edge == "first" and self.options.edges == "float32":
            return self.store(layer, path, value, self.rules(layer).first_output())
        return self.passes(layer, path, value)

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """Algorithm 2. e0 and e3 are rounded; e1, e2 and e4 are exact.

        Defined by `spec/methods/wageubn.py: Step.error`.
        """
        if self._in_block(layer):
            return self.passes(layer, path, to_float32(value, f"{layer.name}/{path}"))
        if path in ("m1", "m2"):
            return self.store(layer, path, value, self.rules(layer).mean_of_errors(value.exponent))
        if layer.edge and path == "e3":  # of the first layer from batch norm, of the last from the loss
            if self.options.edges == "fixed16":
                return self.store(layer, path, value, Shift(EDGE_BITS))
            return self.passes(layer, path, to_float32(value))
        formats = self.rules(layer).formats
        format = formats.get(path)
        if path == "e1" and not isinstance(value, QTensor):  # no activation stands after this batch norm
            format = formats["e0"]
        return self.passes(layer, path, value) if format is None else self.store(layer, path, value, format)

    # -- gradients and update ---------------------------------------------------------------

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> Any:
        """(18): gW by CQ, ggamma and gbeta direct. Defined by `spec/methods/wageubn.py: Step.gradient`."""
        path = f"g{parameter.symbol}"
        value = self.passes(layer, path, self._with_decay(layer, parameter, value))
        if self._floating(layer):
            return value
        if parameter.symbol == "W":  # (7)
            format = self.rules(layer).of_gradient(self.epoch)
            return self.store(layer, "gWq", value, format, stream="gW")
        return self.store(layer, f"{path}q", value, self.rules(layer).formats[path])

    def _with_decay(self, layer: LayerLike, parameter: Parameter, value: Any) -> Any:
        s, w = self.rules(layer).options.weight_decay, parameter.value
        if s is None or parameter.symbol != "W":
            return value
        if self._floating(layer):
            return fp32.fma(np.float32(2.0**-s), w, value)
        return add(exact(value), Exact([(w, 1)], int(w.exponent) - s))

    def update(self, layer: LayerLike, parameter: Parameter, gradient: Any) -> None:
        """(20), (23); of a layer in float32 SGD with momentum.

        Defined by `spec/methods/wageubn.py: Step.update`.
        """
        if self._floating(layer):
            gradient = check_finite(gradient, f"{layer.name}/{parameter.symbol}")
            sgd_momentum(parameter, gradient, *self.rules(layer).sgd(self.epoch))
            return
        moved = self._moved(layer, parameter.symbol, parameter.slots["Accq"], gradient, parameter.value)
        parameter.slots["Accq"], parameter.value = moved

    def _moved(
        self, layer: LayerLike, symbol: str, old: QTensor, gradient: QTensor, value: QTensor
    ) -> tuple[QTensor, QTensor]:
        """(Acc_q', W'): Acc = Mom*Acc_q + g_q and W' = W - lr*Acc, both exact; Acc_q' = Q(Acc, kAcc)."""
        rules, where, seen = self.rules(layer), f"{layer.name}/{symbol}", bool(self.observers)
        slot = "" if symbol == "W" else f"_{symbol}"
        lr, mom = rules.lr.at(self.epoch), rules.options.mom
        given = Exact([(old, mom), (gradient, 1)], int(gradient.exponent)) if seen else None
        acc = self.passes(layer, f"Acc{slot}", momentum(old, gradient, mom, rules.k, where), given)
        acc_q = self.store(layer, f"Accq{slot}", acc, rules.formats["Accq"])
        moved = descend(value, acc, lr, rules.k, where)
        given = Exact([(value, 1), (acc, -lr)], int(moved.exponent)) if seen else None
        stored = self.store(layer, symbol, moved, rules.memory(symbol), operands=given)
        return as_memory(acc_q, where), as_memory(stored, where)

    def update_all(self, updates: Sequence[Update]) -> None:
        """`update` of each; many small ones as one vector, which is the same, elements being apart."""
        own = type(self).update is Wageubn.update  # a subclass's is asked for each
        done = [group for group in self._groups(updates) if own and self._update_together(group)]
        together = {parameter for group in done for _, parameter, _ in group}
        super().update_all([one for one in updates if one[1] not in together])

    def _update_together(self, group: Sequence[Update]) -> bool:
        """False, and nothing done, where an error or a count has to name a layer."""
        layer, parameters = group[0][0], [parameter for _, parameter, _ in group]
        old = joined([parameter.slots["Accq"] for parameter in parameters])
        gradient = joined([gradient for _, _, gradient in group])
        value = joined([parameter.value for parameter in parameters])
        with self.within(saturated={}):
            try:
                moved = self._moved(layer, parameters[0].symbol, old, gradient, value)
            except ContainerError:
                return False
            if self.saturated:
                return False
        for parameter, *parts in zip(
            parameters, *(split(q, [p.shape for p in parameters]) for q in moved), strict=True
        ):
            parameter.slots["Accq"], parameter.value = parts
        return True


def _within(value: Any, exponent: Any, limit: float) -> bool:
    """Whether a value is stored on a grid, and bounded below `limit`."""
    return isinstance(value, QTensor) and bool(value.exponent == exponent) and value.bound < limit


def momentum(acc_q: QTensor, gradient: QTensor, mom: int, k: Widths, where: str) -> QTensor:
    """(20): Acc = Mom*Acc_q + g_q, exact on the grid of g_q: (22) makes the two exponents meet.

    Defined by `spec/methods/wageubn.py: accumulate`.
    """
    assert int(acc_q.exponent) + 1 - k.k_mom == int(gradient.exponent), "constraint (22)"
    return combine(mom, acc_q, 1, gradient, int(gradient.exponent), f"{where}: the accumulator")


def descend(w: QTensor, acc: QTensor, lr: int, k: Widths, where: str) -> QTensor:
    """(23): W - lr*Acc, exact: (24) makes the update land on the grid of W, nothing is rounded.

    Defined by `spec/methods/wageubn.py: descend`.
    """
    assert int(acc.exponent) - (k.k_lr - 1) == int(w.exponent), "constraint (24)"
    return combine(1, w, -lr, acc, int(w.exponent), f"{where}: the update")
