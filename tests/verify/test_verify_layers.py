"""`intnet verify` on a net that has one of every layer, under every method: no difference, all specified."""

from __future__ import annotations

from typing import Any

import pytest

from intnet import datasets, methods
from intnet import layers as kinds
from intnet.autograd import Tensor
from intnet.layers.joints import Join, SqueezeExcitation
from intnet.methods import METHODS
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.training.train import Run
from intnet.verify import taken
from intnet.verify.row import EQUAL, Options
from intnet.verify.tasks import Step


class Everything(Model):
    """Images 8x8x1: convolutions plain, in groups, with stride and bias, every activation, pool and joint."""

    def __init__(self) -> None:
        super().__init__("everything", (8, 8, 1), 10)
        self.conv1, self.bn1, self.silu = kinds.Conv2d(1, 4, 3, padding=1), kinds.BatchNorm2d(4), kinds.SiLU()
        self.pool = kinds.MaxPool2d(3, 2, 1)
        self.conv2, self.bn2 = kinds.Conv2d(4, 4, 3, padding=1, groups=4), kinds.BatchNorm2d(4)
        self.excite, self.join = SqueezeExcitation(4, 2), Join()
        self.conv3, self.tanh = kinds.Conv2d(4, 6, 2, stride=2, bias=True), kinds.Tanh()
        self.mean, self.flatten = kinds.AdaptiveAvgPool2d((2, 1)), kinds.Flatten()
        self.fc1, self.bn3, self.relu = kinds.Linear(12, 8, bias=False), kinds.BatchNorm2d(8), kinds.ReLU()
        self.dropout, self.fc2 = kinds.Dropout(0.25), kinds.Linear(8, 10)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        for layer in (self.conv1, self.bn1, self.silu, self.pool):
            x = layer(x, method)
        y = self.excite(self.bn2(self.conv2(x, method), method), method)
        x = self.join(y, method, x)
        inner: tuple[Any, ...] = (self.conv3, self.tanh, self.mean, self.flatten, self.fc1, self.bn3)
        for layer in (*inner, self.relu, self.dropout, self.fc2):
            x = layer(x, method)
        return x


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_layer_under_every_method_is_the_definition_s(method: str) -> None:
    data = datasets.load("digits").first(16)
    run = Run(Everything(), methods.make(method), data, 4, seed=5)
    step = Step(taken.take(run, 2, lambda run, steps: run.train(steps)), Options(25))
    rows = [row for layer in step.layers() for row in step.rows(layer)]
    wrong = [f"{row.layer}/{row.path}: {row.why} {row.difference}" for row in rows if row.state != EQUAL]
    assert not wrong
    names = {row.layer for row in rows}
    assert names >= {layer.name for layer in run.model.all_layers()} - {"flatten", "pool"}
