"""One whole WAGEUBN training step of a small residual net, in exact arithmetic, every tensor by name.

A net is a first convolution (float32), batch norm and ReLU; residual blocks of two convolutions, the
shortcut an identity or a 1x1 convolution with batch norm; global average pooling; a float32 linear layer.
Names are 'layer/path' with PyTorch's layer names. `layers` has the single steps, `norm` batch norm.

State (the argument and, after the step, `Step.state`), shapes and exponents in the containers:
conv1/W conv1/Acc fc/W fc/Acc fc/b fc/Acc_b are `Tensor` of float32; every other convolution has W (-23)
and Accq (-12), every batch norm gamma, beta (-23) and Accq_gamma, Accq_beta (-12), as `Fixed`.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from intnet.spec import batch_norm as norm
from intnet.spec import float32 as floats
from intnet.spec import formats as qz
from intnet.spec import operations as ops
from intnet.spec.methods import wageubn_layers as layers
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Fixed, Tensor, add_fixed, power
from intnet.spec.words import words

X1_EXPONENT = -14
State = Mapping[str, Fixed | Tensor]
Plain = tuple[list[int], int] | list[Fraction]


@dataclass(frozen=True)
class Block:
    """A residual block; `downsample` puts a 1x1 convolution and batch norm on the shortcut."""

    name: str
    stride: int = 1
    downsample: bool = False


@dataclass(frozen=True)
class Net:
    """The blocks in order; kernel sizes are the weights', padding is half of them."""

    blocks: tuple[Block, ...]
    first_stride: int = 1


@dataclass(frozen=True)
class Settings:
    """`lr` is a code at 2^-9, `dr` the constant quantizer's range, `bits` the width of its random words."""

    seed: int
    step: int
    lr: int
    dr: int = 128
    e2: str = "flag8"
    bits: int = 32


@dataclass
class Step:
    """What a step leaves: every tensor, its shape, and how many elements each clip changed."""

    tensors: dict[str, Plain] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    saturated: dict[str, int] = field(default_factory=dict)
    state: dict[str, Fixed | Tensor] = field(default_factory=dict)
    kept: dict[str, Fixed | Tensor] = field(default_factory=dict)

    def put(self, name: str, value: Fixed | Tensor) -> None:
        """Record a tensor under 'layer/path'."""
        self.kept[name] = value
        self.shapes[name] = value.shape
        if isinstance(value, Fixed):
            self.tensors[name] = (value.codes, value.exponent)
        else:
            self.tensors[name] = value.values

    def put_quantized(self, name: str, shape: tuple[int, ...], q: qz.Quantized) -> Fixed:
        """Record a quantizer's answer and its count; returns it with its shape."""
        value = layers.as_fixed(shape, q)
        self.put(name, value)
        self.saturated[name] = q.saturated
        return value

    def fixed(self, name: str) -> Fixed:
        """A recorded fixed-point tensor."""
        return _fixed(self.kept, name)

    def real(self, name: str) -> Tensor:
        """A recorded float32 tensor."""
        return _real(self.kept, name)


def _fixed(state: State, name: str) -> Fixed:
    value = state[name]
    assert isinstance(value, Fixed), f"{name} is not fixed point"
    return value


def _real(state: State, name: str) -> Tensor:
    value = state[name]
    assert isinstance(value, Tensor), f"{name} is not float32"
    return value


def forward(net: Net, state: State, images: Tensor) -> Step:
    """The forward pass of `images` (N, H, W, C), float32 values; the logits are 'fc/x1'."""
    run = Step()
    x3 = _bn_forward(run, state, "bn1", _first_forward(run, net, state, images))
    x4 = _relu_forward(run, "relu1", x3)
    for block in net.blocks:
        x4 = _block_forward(run, state, block, x4)
    pooled = ops.global_avg_pool(x4.real())
    pooled = Tensor(pooled.shape, [floats.to_float32(v) for v in pooled.values])
    run.put("avgpool/x4", pooled)
    run.put("fc/x0", pooled)
    run.put("fc/x1", floats.linear32(pooled, _real(state, "fc/W"), _real(state, "fc/b").values))
    return run


def step(net: Net, state: State, images: Tensor, error: Tensor, settings: Settings) -> Step:
    """One training step; `error` (N, classes) holds (p - y) / N of the logits as float32 values."""
    run = forward(net, state, images)
    incoming = _last_backward(run, net, state, error, settings)
    for block in reversed(net.blocks):
        incoming = _block_backward(run, state, block, incoming, settings)
    e1 = _relu_backward(run, "relu1", incoming, run.fixed("bn1/x3"))
    _first_backward(run, net, state, _bn_backward(run, state, "bn1", e1, settings), settings)
    return run


def _padding(w_shape: tuple[int, ...]) -> tuple[int, int]:
    return w_shape[2] // 2, w_shape[3] // 2


def _first_forward(run: Step, net: Net, state: State, images: Tensor) -> Fixed:
    w = _real(state, "conv1/W")
    run.put("conv1/x0", images)
    out = floats.conv32(images, w, net.first_stride, _padding(w.shape))
    codes = [round_fraction(v / power(X1_EXPONENT), "ties_even") for v in out.values]
    x1 = Fixed(out.shape, codes, X1_EXPONENT)
    run.put("conv1/x1", x1)
    return x1


def _conv_forward(run: Step, state: State, layer: str, x0: Fixed, stride: int) -> Fixed:
    w = _fixed(state, f"{layer}/W")
    run.put(f"{layer}/x0", x0)
    wq = run.put_quantized(f"{layer}/Wq", w.shape, layers.weight_q(w))
    x1 = layers.conv_forward(x0, wq, stride, _padding(w.shape))
    run.put(f"{layer}/x1", x1)
    return x1


def _bn_forward(run: Step, state: State, layer: str, x1: Fixed) -> Fixed:
    gamma, beta = _fixed(state, f"{layer}/gamma"), _fixed(state, f"{layer}/beta")
    gamma_q = run.put_quantized(f"{layer}/gammaq", gamma.shape, layers.affine_q(gamma))
    beta_q = run.put_quantized(f"{layer}/betaq", beta.shape, layers.affine_q(beta))
    normed = norm.batch_norm(x1.real())
    x3 = norm.scale_shift(normed.x2, gamma_q, beta_q)
    for path, value in (("mu", normed.mu), ("sigma", normed.sigma), ("x2", normed.x2), ("x3", x3)):
        run.put(f"{layer}/{path}", value)
    return x3


def _relu_forward(run: Step, layer: str, x3: Fixed) -> Fixed:
    x4 = layers.activation(x3)
    run.put(f"{layer}/x4", x4)
    return x4


def _block_forward(run: Step, state: State, block: Block, x4: Fixed) -> Fixed:
    name = block.name
    x1 = _conv_forward(run, state, f"{name}.conv1", x4, block.stride)
    inner = _relu_forward(run, f"{name}.relu1", _bn_forward(run, state, f"{name}.bn1", x1))
    x1 = _conv_forward(run, state, f"{name}.conv2", inner, 1)
    main = _bn_forward(run, state, f"{name}.bn2", x1)
    shortcut = x4
    if block.downsample:
        x1 = _conv_forward(run, state, f"{name}.downsample.0", x4, block.stride)
        shortcut = _bn_forward(run, state, f"{name}.downsample.1", x1)
    joined = add_fixed(main, shortcut)
    run.put(f"{name}.relu2/x3", joined)
    return _relu_forward(run, f"{name}.relu2", joined)


def _last_backward(run: Step, net: Net, state: State, error: Tensor, settings: Settings) -> Tensor:
    """The last layer's gradients and update; returns the exact error of the last block's output."""
    x0, w = run.real("fc/x0"), _real(state, "fc/W")
    gw = floats.linear32_weight_grad(error, x0)
    gb = Tensor((error.shape[1],), floats.linear32_bias_grad(error))
    e4 = floats.linear32_input_grad(error, w)
    for path, value in (("e3", error), ("gW", gw), ("gb", gb), ("e4", e4)):
        run.put(f"fc/{path}", value)
    _update32(run, state, "fc", "W", "Acc", gw, settings)
    _update32(run, state, "fc", "b", "Acc_b", gb, settings)
    last = f"{net.blocks[-1].name}.relu2" if net.blocks else "relu1"
    return ops.global_avg_pool_grad(e4, run.fixed(f"{last}/x4").shape)


def _first_backward(run: Step, net: Net, state: State, dx1: Tensor, settings: Settings) -> None:
    """The first layer's float32 gradient from the unquantized dL/dx1, rounded once to float32."""
    w = _real(state, "conv1/W")
    e3 = Tensor(dx1.shape, [floats.to_float32(v) for v in dx1.values])
    gw = floats.conv32_weight_grad(
        e3, run.real("conv1/x0"), w.shape, net.first_stride, _padding(w.shape)
    )
    run.put("conv1/e3", e3)
    run.put("conv1/gW", gw)
    _update32(run, state, "conv1", "W", "Acc", gw, settings)


def _relu_backward(run: Step, layer: str, incoming: Tensor, x3: Fixed) -> Fixed:
    """e0 = SQ(incoming, 8), e1 = e0 where x3 > 0."""
    e0 = run.put_quantized(f"{layer}/e0", incoming.shape, qz.shift(incoming.values, 8))
    e1 = layers.mask(e0, x3)
    run.put(f"{layer}/e1", e1)
    return e1


def _bn_backward(run: Step, state: State, layer: str, e1: Fixed, settings: Settings) -> Tensor:
    """Gradients and update of gamma and beta; returns dL/dx1 as exact rationals."""
    x2 = run.fixed(f"{layer}/x2")
    e2 = norm.scale_error(e1, run.fixed(f"{layer}/gammaq"))
    grad = norm.batch_norm_grad(e2, x2, run.fixed(f"{layer}/sigma"))
    for path, value in (("e1", e1), ("e2", e2), ("m1", grad.m1), ("m2", grad.m2)):
        run.put(f"{layer}/{path}", value)
    for name, exact in (("gamma", norm.gamma_grad(e1, x2)), ("beta", norm.beta_grad(e1))):
        run.put(f"{layer}/g{name}", exact)
        gq = run.put_quantized(f"{layer}/g{name}q", exact.shape, qz.direct(exact.real().values, 15))
        _update(run, state, f"{layer}/{name}", f"{layer}/Acc{{}}_{name}", gq, settings, saturate=False)
    return grad.dx1


def _conv_backward(
    run: Step, state: State, layer: str, dx1: Tensor, stride: int, settings: Settings
) -> Fixed:
    """e3, the weight's gradient and update; returns e4."""
    w, x0, wq = _fixed(state, f"{layer}/W"), run.fixed(f"{layer}/x0"), run.fixed(f"{layer}/Wq")
    e3 = run.put_quantized(f"{layer}/e3", dx1.shape, layers.error_q(dx1, settings.e2))
    gw = layers.conv_gradient(e3, x0, w.shape, stride, _padding(w.shape))
    run.put(f"{layer}/gW", gw)
    drawn = words(settings.seed, settings.step, f"{layer}/gW", len(gw.codes), bits=settings.bits)
    q = qz.constant(gw.real().values, drawn, settings.dr, bits=settings.bits)
    gwq = run.put_quantized(f"{layer}/gWq", gw.shape, q)
    _update(run, state, f"{layer}/W", f"{layer}/Acc{{}}", gwq, settings, saturate=True)
    e4 = layers.conv_error(e3, wq, x0.shape, stride, _padding(w.shape))
    run.put(f"{layer}/e4", e4)
    return e4


def _block_backward(
    run: Step, state: State, block: Block, incoming: Tensor, settings: Settings
) -> Tensor:
    """From the exact error of the block's output to that of its input, the branches' exact sum."""
    name = block.name
    joined = _relu_backward(run, f"{name}.relu2", incoming, run.fixed(f"{name}.relu2/x3"))
    dx1 = _bn_backward(run, state, f"{name}.bn2", joined, settings)
    e4 = _conv_backward(run, state, f"{name}.conv2", dx1, 1, settings)
    e1 = _relu_backward(run, f"{name}.relu1", e4.real(), run.fixed(f"{name}.bn1/x3"))
    dx1 = _bn_backward(run, state, f"{name}.bn1", e1, settings)
    main = _conv_backward(run, state, f"{name}.conv1", dx1, block.stride, settings)
    shortcut = joined
    if block.downsample:
        dx1 = _bn_backward(run, state, f"{name}.downsample.1", joined, settings)
        shortcut = _conv_backward(run, state, f"{name}.downsample.0", dx1, block.stride, settings)
    return ops.add(main.real(), shortcut.real())


def _update(
    run: Step, state: State, name: str, acc_name: str, gq: Fixed, settings: Settings, saturate: bool
) -> None:
    """Update one quantized parameter; `acc_name` has a place for '' (exact) or 'q' (stored)."""
    old, old_acc = _fixed(state, name), _fixed(state, acc_name.format("q"))
    assert (old.exponent, old_acc.exponent) == (layers.W_EXPONENT, layers.ACC_EXPONENT), name
    assert gq.exponent == layers.G_EXPONENT, name
    new = layers.update(old.codes, old_acc.codes, gq.codes, settings.lr, saturate)
    run.put(acc_name.format(""), Fixed(old.shape, new.acc, layers.G_EXPONENT))
    for key, codes, exponent in (
        (acc_name.format("q"), new.accq, layers.ACC_EXPONENT),
        (name, new.w, layers.W_EXPONENT),
    ):
        run.state[key] = Fixed(old.shape, codes, exponent)
        run.put(key, run.state[key])
    run.saturated[name] = new.saturated


def _update32(
    run: Step, state: State, layer: str, path: str, acc_path: str, g: Tensor, settings: Settings
) -> None:
    """Update one float32 parameter of an edge layer."""
    old, old_acc = _real(state, f"{layer}/{path}"), _real(state, f"{layer}/{acc_path}")
    acc, w = layers.update32(old.values, old_acc.values, g.values, settings.lr)
    for key, values in ((f"{layer}/{acc_path}", acc), (f"{layer}/{path}", w)):
        run.state[key] = Tensor(old.shape, values)
        run.put(key, run.state[key])
