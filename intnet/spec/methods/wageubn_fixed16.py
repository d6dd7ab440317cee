"""The whole step with 16-bit integer edges (`edges=fixed16`); hidden layers are `wageubn`'s.

First and last layer: inputs Q(., 16), weights and bias Q(., 16) clipped to +-(1 - 2^-15), gradients and
update as in hidden layers; both errors are SQ(., 16), the classifier's of the float32 error of the loss.
State is `Fixed` throughout: conv1 and fc have W (-23) and Accq (-12), fc also b (-23) and Accq_b (-12).
"""

from __future__ import annotations

from dataclasses import replace

from intnet.spec import formats as qz
from intnet.spec import operations as ops
from intnet.spec.methods import wageubn as hidden
from intnet.spec.methods import wageubn_layers as layers
from intnet.spec.methods.wageubn import Net, Settings, State, Step
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.words import words

BITS = 16


def _parameter(run: Step, state: State, layer: str, path: str) -> Fixed:
    value = hidden._fixed(state, f"{layer}/{path}")
    q = qz.fixed(value.real().values, BITS, BITS - 1, how="saturate_symmetric")
    return run.put_quantized(f"{layer}/{path}q", value.shape, q)


def forward(net: Net, state: State, images: Tensor) -> Step:
    """The forward pass; the logits are the exact 'fc/x1'."""
    run = Step()
    x0 = run.put_quantized("conv1/x0", images.shape, qz.direct(images.values, BITS))
    wq = _parameter(run, state, "conv1", "W")
    x1 = layers.conv_forward(x0, wq, net.first_stride, hidden._padding(wq.shape))
    run.put("conv1/x1", x1)
    x4 = hidden._relu_forward(run, "relu1", hidden._bn_forward(run, state, "bn1", x1))
    for block in net.blocks:
        x4 = hidden._block_forward(run, state, block, x4)
    pooled = ops.global_avg_pool(x4.real())
    x0 = run.put_quantized("fc/x0", pooled.shape, qz.direct(pooled.values, BITS))
    wq, bq = _parameter(run, state, "fc", "W"), _parameter(run, state, "fc", "b")
    exponent = x0.exponent + wq.exponent
    bias = [code * 2 ** (bq.exponent - exponent) for code in bq.codes]
    out = ops.linear(x0.ints(), wq.ints(), bias)
    run.put("fc/x1", Fixed(out.shape, out.values, exponent))
    return run


def step(net: Net, state: State, images: Tensor, error: Tensor, settings: Settings) -> Step:
    """One training step; `error` (N, classes) holds (p - y) / N of the logits as float32 values."""
    run = forward(net, state, images)
    e3 = run.put_quantized("fc/e3", error.shape, qz.shift(error.values, BITS))
    incoming = _last_backward(run, net, state, e3, settings)
    for block in reversed(net.blocks):
        incoming = hidden._block_backward(run, state, block, incoming, settings)
    e1 = hidden._relu_backward(run, "relu1", incoming, run.fixed("bn1/x3"))
    dx1 = hidden._bn_backward(run, state, "bn1", e1, settings)
    edge = replace(settings, e2="16")  # the first layer's error is SQ(., 16) under either e2
    hidden._conv_backward(run, state, "conv1", dx1, net.first_stride, edge)
    del run.tensors["conv1/e4"]  # nobody asks for the images' error
    return run


def _last_backward(run: Step, net: Net, state: State, e3: Fixed, settings: Settings) -> Tensor:
    x0, wq = run.fixed("fc/x0"), run.fixed("fc/Wq")
    exact = ops.linear_weight_grad(e3.ints(), x0.ints())
    gw = Fixed(exact.shape, exact.values, e3.exponent + x0.exponent)
    gb = Fixed((e3.shape[1],), [int(v) for v in ops.bias_grad(e3.ints())], e3.exponent)
    run.put("fc/gW", gw)
    run.put("fc/gb", gb)
    drawn = words(settings.seed, settings.step, "fc/gW", len(gw.codes), bits=settings.bits)
    q = qz.constant(gw.real().values, drawn, settings.dr, bits=settings.bits)
    gwq = run.put_quantized("fc/gWq", gw.shape, q)
    gbq = run.put_quantized("fc/gbq", gb.shape, qz.direct(gb.real().values, 15))
    hidden._update(run, state, "fc/W", "fc/Acc{}", gwq, settings, saturate=True)
    hidden._update(run, state, "fc/b", "fc/Acc{}_b", gbq, settings, saturate=False)
    exact = ops.linear_input_grad(e3.ints(), wq.ints())
    e4 = Fixed(exact.shape, exact.values, e3.exponent + wq.exponent)
    run.put("fc/e4", e4)
    last = f"{net.blocks[-1].name}.relu2" if net.blocks else "relu1"
    return ops.global_avg_pool_grad(e4.real(), run.fixed(f"{last}/x4").shape)
