"""A quantizer for PyTorch: intnet's very bits on CPU tensors, with a straight-through gradient.

    from intnet.export.torch import quantize
    y = quantize(x, FixedPoint(8, 6), "ties_even")      # x: float32, perhaps with requires_grad
    y = quantize(w, E4M3, "stochastic", words)

The values are those of `intnet.quantize`, which reads the tensor's memory where it is. This module alone
imports PyTorch, which is no dependency of intnet: `pip install 'intnet[torch]'`.
"""

from typing import Any

import numpy as np

from intnet.errors import ConfigError, FormatError, NumberError
from intnet.exact import quantize as quantizers
from intnet.exact.saturated import saturated
from intnet.numbers.formats import Format
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.small_floats import Float

try:
    import torch
except ModuleNotFoundError:
    torch = None

__all__ = ["quantize"]

DTYPES = ("float32", "float64", "float16", "bfloat16")


def quantize(
    x: "torch.Tensor",
    format: Format | Float | Microscaling,
    mode: str | None = None,
    words: "np.ndarray | torch.Tensor | None" = None,
    *,
    seed: int | None = None,
    word_bits: int = 32,
    clip: bool = True,
) -> "torch.Tensor":
    """`x` rounded to `format`: a tensor of x's shape and type, with the values of `intnet.quantize`.

    x:         a CPU tensor of float32, float64, float16 or bfloat16, of any strides; rounded once
    mode:      of rounding, as `rounding` of `intnet.quantize`
    words:     of stochastic rounding: uint32, one an element in C order of x's indices; or `seed`
    word_bits: of each word the top so many are used
    clip:      the gradient is 0 where the format's range changed the element
               (`intnet.exact.saturated.saturated`), and elsewhere passes; False: it passes everywhere

    ConfigError for a tensor whose memory is not the processor's, or whose thread flushes subnormal numbers;
    FormatError for another type; NumberError where a value of the format is not exactly one of x's type, and
    what else `intnet.quantize` raises.
    """
    if torch is None:
        raise ConfigError(
            "intnet.export.torch needs PyTorch, which is not installed: pip install 'intnet[torch]'"
        )
    return _quantize(x, format, mode, words, seed, word_bits, clip)


def _check(x: Any) -> None:
    """ConfigError, FormatError for what is not read where it is."""
    if not isinstance(x, torch.Tensor):
        raise FormatError(
            f"intnet.export.torch.quantize takes a tensor, not {type(x).__name__}: intnet.quantize"
        )
    if x.device.type != "cpu":
        raise ConfigError(
            f"the tensor is on {x.device}, and is not copied unasked: "
            f"quantize(x.cpu(), ...).to({str(x.device)!r}) does it, gradient included"
        )
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or x.layout != torch.strided:
        raise ConfigError(
            f"a {type(x).__name__} of {x.layout} has no plain memory: give a dense torch.Tensor"
        )
    if str(x.dtype) not in {f"torch.{name}" for name in DTYPES}:
        raise FormatError(
            f"the tensor is {x.dtype}, and quantize takes {', '.join(DTYPES)}: x.double() holds other floats "
            "exactly, and integers up to 2^53"
        )
    if torch.jit.is_tracing():
        raise ConfigError("torch.jit.trace would keep this call's numbers as constants: trace without it")
    if (np.array([2.0**-149], np.float32) * np.float32(1) == 0).any():
        raise ConfigError(
            "this thread takes subnormal numbers for 0, which changes bits: torch.set_flush_denormal(False)"
        )


def _drawn(words: Any) -> Any:
    """Words of a tensor as an array, others as they are; ConfigError for what is not read where it is."""
    if not isinstance(words, torch.Tensor):
        return words
    try:
        return words.detach().numpy()
    except (TypeError, RuntimeError):  # a type that NumPy lacks, memory elsewhere or of another layout
        raise ConfigError(
            f"words= is a tensor of {words.dtype}, {words.layout}, on {words.device}: a dense one of "
            "torch.uint32 on the CPU is wanted"
        ) from None


def _values(x: Any, format: Any, how: dict[str, Any], masked: bool) -> tuple[Any, Any]:
    """(tensor of the quantized values, bool tensor: where the range changed one, or None)."""
    plain = x.float() if x.dtype == torch.bfloat16 else x  # which NumPy has not; exact
    array = plain.detach().resolve_neg().numpy()
    q = quantizers.quantize(array, format, where="intnet.export.torch.quantize", **how)
    values = torch.from_numpy(np.asarray(q.to_float64()))
    made = values.to(x.dtype)
    same = (made.double() == values) | values.isnan()
    if not same.all():
        at = tuple((~same).nonzero()[0].tolist())
        raise NumberError(
            f"{values[at].item()!r} at {at} is in {format}, but no {x.dtype}: quantize x.double()"
        )
    return made, torch.from_numpy(saturated(array, q, **how)) if masked else None


if torch is not None:

    class _Rounded(torch.autograd.Function):
        """The straight-through estimator."""

        @staticmethod
        def forward(x: Any, format: Any, how: dict[str, Any], masked: bool) -> Any:
            return _values(x, format, how, masked)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            changed = output[1]
            if changed is not None:
                ctx.mark_non_differentiable(changed)
            ctx.save_for_backward(changed)

        @staticmethod
        def backward(ctx: Any, gradient: Any, _: Any) -> Any:
            (changed,) = ctx.saved_tensors
            return gradient if changed is None else gradient.masked_fill(changed, 0), None, None, None

    @torch.compiler.disable  # torch.compile would trace what NumPy does, and compute it in another way
    def _quantize(
        x: Any, format: Any, mode: Any, words: Any, seed: int | None, word_bits: int, clip: bool
    ) -> Any:
        _check(x)
        how = {"rounding": mode, "words": _drawn(words), "seed": seed, "word_bits": word_bits}
        return _Rounded.apply(x, format, how, clip and x.requires_grad and torch.is_grad_enabled())[0]
