"""The rule of softmax_cross_entropy: the mean loss, and the error of every logit, by the definition."""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import loss
from intnet.spec.float32 import to_float32
from intnet.spec.tensor import Tensor
from intnet.verify.record import Back, Call
from intnet.verify.rules.rule import Rule
from intnet.verify.values import Values, shape_of


class Loss(Rule):
    """loss = mean of -log p of the targets; dl = (p - t)/N."""

    forward_spec, back_specs = "loss.cross_entropy", ("loss.cross_entropy",)

    @staticmethod
    def _made(values: Values, call: Call) -> Any:
        key = ("loss", id(call))
        if key not in values.cache:
            logits, shape = call.operands[0], shape_of(call.operands[0])
            exact = values.at(logits, np.arange(int(np.prod(shape))))
            labels = [int(label) for label in call.attributes["labels"]]
            given = Tensor(shape, [to_float32(v) for v in exact])
            values.cache[key] = loss.cross_entropy(given, labels, call.attributes.get("smoothing", 0.0))
        return values.cache[key]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The mean loss."""
        return [self._made(values, call).loss]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """(p - t)/N."""
        error = self._made(values, back.call).error.values
        return [Fraction(error[i]) for i in flat.tolist()]
