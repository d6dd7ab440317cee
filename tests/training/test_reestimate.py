"""Batch norm re-estimated ahead of evaluation: its arithmetic by hand, and that the run stays as it was."""

from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.autograd import Tensor
from intnet.datasets import Augment
from intnet.errors import ConfigError, ContainerError
from intnet.layers import BatchNorm2d
from intnet.methods.trace import Recorder
from intnet.numbers.qtensor import QTensor
from intnet.training.reestimate import norms_of, reestimated
from intnet.training.train import Run


def made(method: str = "float32", model: str = "mlp", **options: Any) -> Run:
    data = datasets.load("digits").first(100)
    net = models.make(model, (8, 8, 1), 10)
    return Run(net, methods.make(method, **options), data, 32, 3, Augment(crop=1))


def layer(channels: int) -> BatchNorm2d:
    found = BatchNorm2d(channels)
    found.name = "bn"
    return found


def test_the_mean_of_integers_is_rounded_once() -> None:
    """At exponent -31, ties to even: means of words at -15, of squares at -30."""
    bn = layer(2)
    mu = [QTensor(np.array(codes, np.int16), -15) for codes in ([1, -7], [2, 5], [2, 3])]
    sigma = [QTensor(np.array(codes, np.int16), -15) for codes in ([3, 1], [5, 2], [4, 2])]
    bn.reestimate(list(zip(mu, sigma, strict=True)))
    mean, variance = bn.running_statistics()
    assert (mean.exponent, variance.exponent) == (-31, -31)
    assert mean.codes.tolist() == [round(Fraction(5 << 16, 3)), round(Fraction(1 << 16, 3))]
    assert variance.codes.tolist() == [round(Fraction(2 * 50, 3)), round(Fraction(2 * 9, 3))]
    tie = [QTensor(np.array([code], np.int64), -32) for code in (1, 0)]  # mean 2^-33: a quarter of a unit
    one = [QTensor(np.array([code], np.int64), -32) for code in (1, 1)]  # half a unit
    three = [QTensor(np.array([code], np.int64), -32) for code in (3, 3)]
    for given, code in ((tie, 0), (one, 0), (three, 2)):
        bn = layer(1)
        bn.reestimate([(x, QTensor(np.array([1], np.int16), -15)) for x in given])
        assert bn.running_statistics()[0].codes.tolist() == [code]


def test_float32_is_added_in_order() -> None:
    """2^24 + 1 is a tie, so the order tells."""
    values = [np.array([v], np.float32) for v in (2.0**24, 1, 1)]
    for given, total in ((values, 2.0**24), (values[::-1], 2.0**24 + 2)):
        bn = layer(1)
        bn.reestimate([(x, x) for x in given])
        for found in bn.running_statistics():
            assert found.dtype == np.float32
            assert found.tolist() == [np.float32(total) / np.float32(3)]


def test_sums_beyond_int64_are_refused() -> None:
    wide = QTensor(np.array([2**61], np.int64), -31)
    with pytest.raises(ContainerError, match="bn/running: 4 batches add up beyond int64; take fewer"):
        layer(1).reestimate([(wide, QTensor(np.array([1], np.int16), -15))] * 4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wageubn", "adapt", "dynasty", "float32"])
def test_the_run_stays_as_it_was(method: str) -> None:
    """Its state, the method's choice of statistics, inference without the estimate, further steps."""
    run, other = made(method), made(method)
    for one in (run, other):
        one.train(5)
    first = run.evaluate(reestimate=3).accuracy
    assert run.digest() == other.digest() and run.method.running_statistics
    assert run.evaluate(reestimate=3).accuracy == first
    assert run.evaluate().accuracy == other.evaluate().accuracy
    for one in (run, other):
        one.train(8)
    assert run.digest() == other.digest()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wageubn", "adapt", "float32"])
def test_any_number_of_threads(method: str) -> None:
    run = made(method, "resnet8")
    run.train(2)
    found = []
    for count in (1, 2):
        numba.set_num_threads(count)
        with reestimated(run.model, run.method, [run.batch(step)[0] for step in range(2, 5)]):
            found.append(run.digest())
    assert found[0] == found[1] != run.digest()


@pytest.mark.slow
def test_one_batch_is_that_batch_s_own() -> None:
    """Ahead of the first step too; after the block there are no statistics again."""
    run, own = made(), made(statistics="batch")
    images, seen = run.batch(0)[0], Recorder("bn*")
    with own.method.within(training=False, observers=[seen]):
        own.model(Tensor(images), own.method)
    norms = norms_of(run.model)
    assert len(norms) == 2
    with reestimated(run.model, run.method, [images]):
        for norm in norms:
            mean, variance = norm.running_statistics()
            assert mean.tolist() == seen[f"{norm.name}/mu"].tolist()
            assert variance.tolist() == seen[f"{norm.name}/var"].tolist()
    assert not any(norm.buffers for norm in norms)


@pytest.mark.slow
def test_an_error_inside_leaves_the_run_whole() -> None:
    run = made()
    run.train(1)
    before = run.digest()
    with pytest.raises(RuntimeError), reestimated(run.model, run.method, [run.batch(1)[0]]):
        assert run.digest() != before
        raise RuntimeError
    assert run.digest() == before and run.method.running_statistics


@pytest.mark.parametrize(
    ("model", "options", "number", "message"),
    [
        ("lenet5-tanh", {}, 2, "model 'lenet5-tanh' has no batch norm"),
        ("mlp", {"statistics": "batch"}, 2, "statistics=batch: inference reads the test batch's own"),
        ("mlp", {}, -1, "reestimate=-1: a number of training batches, or 0"),
        ("mlp", {}, 1.5, "reestimate=1.5: a number"),
    ],
)
def test_refused(model: str, options: dict[str, Any], number: Any, message: str) -> None:
    shape = (28, 28, 1) if model != "mlp" else (8, 8, 1)
    images, labels = np.zeros((4, *shape), np.uint8), np.arange(4)
    data = datasets.Dataset("none", images, labels, images, labels, -8, 10)
    run = Run(models.make(model, shape, 10), methods.make("float32", **options), data, 2)
    with pytest.raises(ConfigError, match=message):
        run.evaluate(reestimate=number)
