"""The tape's codecs under every method: whole steps equal the oracle's, and what is off changes no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.autograd import loaded
from intnet.cli.main import main
from intnet.errors import ConfigError
from intnet.exact.blocks.block_float import BlockTensor
from intnet.methods.packing import Alike
from intnet.numbers.qtensor import QTensor
from intnet.spec.methods.saved import Packed
from intnet.training.tape import measure
from intnet.training.train import Run
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import begun, differences, first_steps

OTHERS = ("float32", "adapt", "muppet", "dynasty", "wageubn")
CODECS: list[dict[str, Any]] = [
    {"saved.bits": 2},
    {"saved.codec": "symmetric", "saved.bits": "3"},
    {"saved.codec": "levels", "saved.levels": "3", "saved.bucket": 100, "saved.bits@bn1": "off"},
    {"saved.codec": "affine", "saved.bits": "2/4", "saved.bucket": "tensor", "saved.storage": "on_backward"},
]


def run_of(method: str, net: str, options: dict[str, Any]) -> Run:
    return begun(net, methods.make(method, **options), 3, 4, 8)


# every method with every codec, and each of both in every net
PAIRED = [
    (method, options, ("mlp", "resnet", "excited")[(i + j) % 3])
    for i, method in enumerate(OTHERS)
    for j, options in enumerate(CODECS)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "net"),
    PAIRED,
    ids=lambda value: value.get("saved.codec", "default") if isinstance(value, dict) else value,
)
def test_every_step_equals_the_oracle(method: str, options: dict[str, Any], net: str) -> None:
    results = first_steps(run_of(method, net, options), net, 2)
    packed = {name for name, value in results[0].expected.tensors.items() if isinstance(value, Packed)}
    assert packed and packed == {name for name in results[0].events if name[-4:] in ("/x0s", "/x1s", "/x3s")}
    assert packed <= {f"{name}s" for name in results[0].held}
    assert [differences(result) for result in results] == [[], []]


def test_what_comes_back_is_of_the_kind_that_the_gradient_takes() -> None:
    """Words on their own grid, to nearest; block float of the same widths; of the others float32."""
    for method in ("wageubn", "dynasty", "adapt"):
        run, seen = run_of(method, "resnet", {"saved.bits": 3}), []
        save = run.method.packing.save  # type: ignore[union-attr]

        def saving(layer: Any, path: str, value: Any, save: Any = save, seen: list[Any] = seen) -> Any:
            kept = save(layer, path, value)
            seen.append((layer, path, value, kept))
            return kept

        run.method.packing.save = saving  # type: ignore[union-attr,method-assign]
        run.train_step()
        kinds = set()
        for layer, path, value, kept in seen:
            if path != "x0" or layer.edge:
                continue
            again = loaded(kept)
            assert again.shape == value.shape and isinstance(kept, Alike) == (method != "adapt")
            kinds.add(type(again))
            if isinstance(again, QTensor):
                assert again.exponent == value.exponent
                a = kept.packed.load().astype(np.float64)
                assert (again.codes == np.rint(np.ldexp(a, -int(value.exponent)))).all()
            if isinstance(again, BlockTensor):
                assert again.bits.tolist() == value.bits.tolist() and again.axes == value.axes
        assert kinds == {{"wageubn": QTensor, "dynasty": BlockTensor, "adapt": np.ndarray}[method]}


@pytest.mark.slow
@pytest.mark.parametrize("method", OTHERS)
def test_off_is_as_without(method: str) -> None:
    runs = [run_of(method, "resnet", options) for options in ({}, {"saved.bits": "off"})]
    for run in runs:
        run.train(3)
    first, second = map(state_of, runs)
    assert state_differences(first, second) == []


def test_float32_with_it_is_saved_but_for_the_words() -> None:
    """To nearest they are one."""
    options = {"codec": "symmetric", "bits": "3"}
    one = run_of("saved", "resnet", options)
    other = run_of("float32", "resnet", {f"saved.{key}": value for key, value in options.items()})
    for run in (one, other):
        run.train(3)
    assert state_differences(state_of(one), state_of(other)) == []


def test_settings_make_the_method_again() -> None:
    made = methods.make("wageubn", **{"saved.codec": "levels", "saved.bits@fc": "8", "e2": "16"})
    told = made.settings()
    assert told["saved.codec"] == "levels" and told["saved.bits@fc"] == "8" and told["saved.bits"] == "4"
    assert methods.make("wageubn", **told).settings() == told
    assert not [key for key in methods.make("wageubn").settings() if key.startswith("saved.")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"saved.bit": "4"}, "unknown key of method 'adapt: saved' 'bit'; did you mean 'bits'"),
        ({"saved.bits": "0"}, "adapt: saved: codec affine-stochastic: bits = 0"),
        ({"saved.bits@nowhere": "3"}, "adapt: saved: bits@nowhere: no layer of this model has such a name"),
        ({"saved.mix_prob": "0.5"}, "adapt: saved: mix_prob=0.5: no layer mixes widths"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_step(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_of("adapt", "resnet", options)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["save", "on_backward"])
@pytest.mark.parametrize("method", ["wageubn", "muppet", "dynasty", "adapt"])
def test_a_step_is_measured_and_verified(
    method: str, storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the tape holds counts packed; `verify` reads what came back, by the definition."""
    run = run_of(method, "resnet", {"saved.bits": 2, "saved.storage": storage})
    tapes: list[Any] = []
    run.train(1, last_tape=lambda loss: tapes.append(measure(loss)))
    assert tapes[0].held > 0
    given = ["--set", "saved.bits=2", "--set", f"saved.storage={storage}"]
    status = main(
        ["verify", "--method", method, "--model", "mlp", "--data", "digits", "--batch-size", "8", *given]
    )
    assert status == 0 and "no difference" in capsys.readouterr().out
