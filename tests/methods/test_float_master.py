"""Optimizers of float32 masters against the oracle's Fractions: kernels by themselves, then runs of methods.

A run is judged update by update: every call of `FloatMaster.update` gives what it had and what it made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.errors import ConfigError, NumberError, ShapeError
from intnet.methods import float_master, schedules
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import Parameter
from intnet.methods.trace import Recorder
from intnet.ops.kernels import descent
from intnet.ops.loss import float_logits
from intnet.runs import run_folder
from intnet.spec.float32 import to_float32
from intnet.spec.methods import METHODS
from intnet.spec.methods import float_master as oracle
from intnet.spec.methods.float_master import Settings, Slots
from intnet.spec.methods.step import at
from tests.support.opcheck import expected_loss, floating, threads, values

LEVERS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.75},
    "adamw": {"optimizer": "adamw"},
    "decoupled": {"optimizer": "adamw", "weight_decay": 0.5, "beta1": 0.8, "beta2": 0.99, "adam_eps": 1e-3},
    "schedule": {"warmup": 1.5, "cosine": 0.75},
    "one cycle": {"one_cycle": 1.5},
    "clip": {"clip": 0.01},
    "all": {"optimizer": "adamw", "weight_decay": 0.1, "warmup": 1, "cosine": 2, "clip": 0.1,
            "label_smoothing": 0.1},
}  # fmt: skip
MASTERS = ["float32", "adapt", "muppet", "dynasty", "saved"]
LR = "0.05,0.02@1"
PER_EPOCH = 3
PATCH = pytest.MonkeyPatch


def updated(
    s: Settings, lr: float, w: list[Fraction], g: list[Fraction], slots: Slots, t: int, scale: Fraction,
    penalties: tuple[float, float],
) -> tuple[list[Fraction], Slots]:  # fmt: skip
    """(W, slots) after the definition's step, element by element."""
    new = oracle.moments(s, oracle.with_penalties(w, g, scale, penalties), slots)
    return oracle.MOVES[s.optimizer](s, lr, w, new, t), new


# -- kernels --------------------------------------------------------------------------------------


def corners(seed: int, n: int) -> np.ndarray:
    """Magnitudes from subnormals to 2^40, zeros of both signs, and powers of two."""
    parts = [floating(seed + k, (n,), exponent) for k, exponent in enumerate((-140, -60, -10, 0, 5, 40))]
    parts.append(np.array([0, -0.0, 1, -1, 2.0**-149, -(2.0**-149), 2.0**-126, 0.5], np.float32))
    return np.concatenate(parts)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["plain", "clipped", "penalties", "all"])
@pytest.mark.parametrize("adamw", [False, True])
def test_kernels_round_each_operation_once(adamw: bool, case: str) -> None:
    """Three steps; every element of the tensors has other company in the slots."""
    penalties = (1e-4, 0.01) if case in ("penalties", "all") else (0.0, 0.0)
    scale = 0.37 if case in ("clipped", "all") else 1.0
    decay = 0.02 if case == "all" else 0.0
    s = Settings(optimizer="adamw" if adamw else "sgd", weight_decay=decay)
    w, slots, moments, acc = corners(1, 60), Slots(), None, None
    judged = values(w)
    for step in range(3):
        g = np.random.default_rng(step).permutation(corners(10 + step, 60))
        told = values(g), slots, step + 1, to_float32(Fraction(scale)), penalties
        judged, slots = updated(s, 0.05, judged, *told)
        if adamw:
            numbers = (
                1 / sqrt(1 - oracle.to_power(0.999, step + 1)),
                1e-8,
                0.05 / (1 - oracle.to_power(0.9, step + 1)),
                0.05 * decay,
            )
            w, moments, beyond = descent.adamw(w, g, moments, (0.9, 0.999), *numbers, scale, penalties)
            kept, expected_slots = moments, (slots["m"], slots["v"])
            assert beyond == 0
        else:
            w, acc = descent.sgd(w, g, acc, s.momentum, 0.05, scale, penalties)
            kept, expected_slots = (acc,), (slots["Acc"],)
        assert values(w) == judged
        assert [values(slot) for slot in kept] == list(expected_slots)


@pytest.mark.slow
def test_threads_layouts_and_given_arrays_do_not_matter() -> None:
    w, g, m = (floating(seed, (150, 160)) for seed in (1, 2, 3))
    v = m * m
    numbers = ((0.9, 0.999), 1.5, 1e-8, 0.1, 0.01)
    before = [array.tobytes() for array in (w, g, m, v)]
    results = []
    for n, order in ((1, "C"), (2, "C"), (2, "F")):
        with threads(n):
            new, (m1, v1), _ = descent.adamw(w, np.asarray(g, order=order), (m, v), *numbers)
            sgd = descent.sgd(w, np.asarray(g, order=order), m, 0.9, 0.1)
        results.append([array.tobytes() for array in (new, m1, v1, *sgd)])
    assert results[0] == results[1] == results[2]
    assert before == [array.tobytes() for array in (w, g, m, v)]
    # rows of 160 numbers, which the test above judges, make the same as all at once
    rows = [descent.adamw(w[i], g[i], (m[i], v[i]), *numbers) for i in range(len(w))]
    assert b"".join(new.tobytes() for new, _, _ in rows) == results[0][0]
    assert b"".join(moments[1].tobytes() for _, moments, _ in rows) == results[0][2]
    rows_sgd = [descent.sgd(w[i], g[i], m[i], 0.9, 0.1) for i in range(len(w))]
    assert b"".join(new.tobytes() for new, _ in rows_sgd) == results[0][3]


def test_sgd_keeps_the_sign_of_a_zero() -> None:
    """-0 stays -0 where nothing is added: Acc = 0.5 * -0 + -0."""
    minus = np.array([-0.0], np.float32)
    _, acc = descent.sgd(np.ones(1, np.float32), minus, minus, 0.5, 0.1)
    assert np.signbit(acc[0])


def test_shapes_that_do_not_fit_are_named() -> None:
    w, g = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    for call in (
        lambda: descent.sgd(w, g, None, 0.9, 0.1),
        lambda: descent.adamw(w, g, None, (0.9, 0.999), 1.0, 1e-8, 0.1, 0.0),
    ):
        with pytest.raises(ShapeError, match=r"\(2, 3\) with a gradient or slot of shape \(3, 2\)"):
            call()


def test_power_is_the_stated_sequence_and_near_the_power() -> None:
    for base in (0.0, 0.5, 0.9, 0.999, 1 - 2.0**-53):
        for n in (1, 2, 3, 10, 1023, 1024, 99_999):
            got = float_master.power(base, n)
            assert got == oracle.to_power(base, n)
            truth = Fraction(base) ** min(n, 3000)
            if n < 3000 and truth > Fraction(2) ** -1000:
                assert abs(Fraction(got) - truth) < truth / 2**40


# -- runs, update by update -----------------------------------------------------------------------


def settings(name: str, options: dict[str, Any]) -> Settings:
    """The oracle's of a method's options; defaults are those that the methods' papers and PyTorch have."""
    made: Settings = METHODS[name].Settings.from_options({"lr": LR, **options})
    assert made.lr == ((0, 0.05), (1, 0.02)) and made.momentum == options.get("momentum", 0.9)
    assert made.weight_decay == options.get("weight_decay", 1e-4 if name == "muppet" else 0.0)
    assert (made.beta1, made.beta2) == (options.get("beta1", 0.9), options.get("beta2", 0.999))
    assert made.adam_eps == options.get("adam_eps", 1e-8)
    return made


def penalties(s: Settings) -> tuple[float, float]:
    """(l1, l2) that join the gradient."""
    if hasattr(s, "l2"):
        return 1e-8, 0.01
    return 0.0, s.weight_decay if s.optimizer == "sgd" else 0.0


def some(array: np.ndarray) -> list[Fraction]:
    """The values at up to 30 places, spread over the tensor."""
    flat = array.reshape(-1)
    return values(flat[:: -(-flat.size // 30)])


class Judge:
    """Takes each update again; `wrong` names the parameters that came out otherwise, `clipped` counts."""

    def __init__(self, s: Settings) -> None:
        self.settings, self.slots, self.times = s, dict[str, Slots](), dict[str, int]()
        self.updates = self.clipped = 0
        self.wrong: set[str] = set()

    def saw(self, name: str, step: int, before: np.ndarray, gradient: np.ndarray, after: Parameter) -> None:
        s, slots = self.settings, self.slots.get(name, {})
        scale = oracle.clipping(values(gradient), s.clip)
        lr = at(s.lr, step // PER_EPOCH) * oracle.scaling(s, step, PER_EPOCH)
        t = self.times[name] = self.times.get(name, 0) + 1
        told = some(gradient), slots, t, scale, penalties(s)
        expected, kept = updated(s, lr, some(before), *told)
        self.slots[name] = kept
        got = {slot: some(after.slots[slot]) for slot in kept}
        if some(after.value) != expected or got != kept or set(after.slots) & {"Acc", "m", "v"} != set(kept):
            self.wrong.add(name)
        self.updates += 1
        self.clipped += scale != 1


@contextmanager
def judged(s: Settings) -> Iterator[Judge]:
    judge, descend = Judge(s), FloatMaster.descend

    def watched(self: FloatMaster, layer: Any, parameter: Parameter, gradient: Any) -> None:
        before = parameter.value
        descend(self, layer, parameter, gradient)
        judge.saw(f"{layer.name}/{parameter.symbol}", self.step, before, gradient, parameter)

    with PATCH.context() as patch:
        patch.setattr(FloatMaster, "descend", watched)
        yield judge


def built(name: str, model: str = "mlp", **options: Any) -> Any:
    return run_folder.build(name, {"lr": LR, **options}, model, "digits", 4, 1, limit=4 * PER_EPOCH)


@pytest.mark.slow
@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.parametrize("name", MASTERS)
def test_every_lever_under_every_method(name: str, lever: str) -> None:
    """Five steps of three an epoch, so that warmup, cosine and lr move, and DYNASTY has a map."""
    run = built(name, **LEVERS[lever])
    with judged(settings(name, LEVERS[lever])) as judge:
        run.train(5)
    assert judge.updates == 5 * len(list(run.model.all_parameters()))
    assert not judge.wrong
    assert (judge.clipped > 0) == ("clip" in LEVERS[lever])


@pytest.mark.slow
@pytest.mark.parametrize("name", MASTERS)
def test_a_residual_net(name: str) -> None:
    run = built(name, "resnet8", **LEVERS["all"])
    with judged(settings(name, LEVERS["all"])) as judge:
        run.train(2)
    assert judge.updates == 2 * len(list(run.model.all_parameters())) and not judge.wrong


@pytest.mark.slow
def test_adapt_counts_the_updates_not_the_batches() -> None:
    """One update in two batches, at steps 1, 3 and 5 (from 0); t of the bias corrections is 1, 2, 3."""
    options = LEVERS["all"] | {"accs": 2}
    run = built("adapt", **options)
    with judged(settings("adapt", options)) as judge:
        run.train(6)
    assert judge.updates == 3 * len(list(run.model.all_parameters())) and not judge.wrong


@pytest.mark.slow
def test_masters_without_a_lever_are_as_they_ever_were() -> None:
    """Keys at their defaults, given or not, are one run; how it was before they came, the digests say."""
    options = {"warmup": 0, "cosine": "off", "optimizer": "sgd", "clip": "off", "label_smoothing": 0}
    for name in MASTERS:
        digests = set()
        for given in ({}, options):
            run = built(name, **given)
            run.train(2)
            digests.add(run.digest())
        assert len(digests) == 1


@pytest.mark.parametrize("name", MASTERS)
def test_label_smoothing_reaches_the_loss(name: str) -> None:
    run, seen = built(name, label_smoothing=0.25), Recorder("fc3/x1")
    labels = run.batch(0)[1].tolist()
    losses: list[float] = []
    run.train(1, lambda report: losses.append(report.loss), [seen])
    logits = float_logits(seen["fc3/x1"])
    assert Fraction(losses[0]) == expected_loss(logits, labels, 0.25)[0]
    assert Fraction(losses[0]) != expected_loss(logits, labels)[0]


def test_observers_see_the_clipped_gradient_and_the_moments() -> None:
    run, seen = built("float32", **LEVERS["all"]), Recorder("fc2/*")
    run.train(1, observe_last=[seen])
    scale = oracle.clipping(values(seen["fc2/gW"]), 0.1)
    assert scale < 1
    assert values(seen["fc2/gWc"]) == [to_float32(scale * g) for g in values(seen["fc2/gW"])]
    assert seen["fc2/mW"] is run.model.fc2.weight.slots["m"]
    assert seen["fc2/vW"] is run.model.fc2.weight.slots["v"]
    assert {"gWc", "mW", "vW"} <= set(run.method.SYMBOLS) and "AccW" not in run.method.SYMBOLS


# -- the judge is judged --------------------------------------------------------------------------


def one_place(patch: PATCH) -> None:
    step = descent.adamw

    def faulty(*args: Any) -> Any:
        w, moments, beyond = step(*args)
        w.reshape(-1)[0] = np.nextafter(w.reshape(-1)[0], np.float32(9))
        return w, moments, beyond

    patch.setattr(descent, "adamw", faulty)


def late_rates(patch: PATCH) -> None:
    factor = schedules.factor
    patch.setattr(schedules, "factor", lambda step, *rest: factor(max(step - 1, 0), *rest))


def updates_from_zero(patch: PATCH) -> None:
    patch.setattr(FloatMaster, "updates_done", lambda self: self.step + 1)


def clip_of_all(patch: PATCH) -> None:
    patch.setattr(FloatMaster, "_clipping", lambda self, g: 0.1 / np.abs(g).max())


def coupled_decay(patch: PATCH) -> None:
    patch.setattr(FloatMaster, "penalties", lambda self: (0.0, self.options.weight_decay))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [one_place, late_rates, updates_from_zero, clip_of_all, coupled_decay])
def test_faults_are_seen(fault: Any) -> None:
    run = built("float32", **LEVERS["all"])
    with PATCH.context() as patch, judged(settings("float32", LEVERS["all"])) as judge:
        fault(patch)
        run.train(3)
    assert judge.wrong


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MASTERS)
@pytest.mark.parametrize(
    ("key", "value"),
    [("warmup", -1), ("cosine", 0), ("one_cycle", 0), ("momentum", 1), ("weight_decay", -0.1),
     ("beta1", 1), ("beta2", -0.5), ("adam_eps", 1e-46), ("clip", 0), ("label_smoothing", 1)],
)  # fmt: skip
def test_values_out_of_range_name_their_key(name: str, key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: {key}={value}: {key} is "):
        methods.make(name, **{key: value})


def test_optimizers_and_owners() -> None:
    with pytest.raises(ConfigError, match="float32: optimizer='adam': use one of sgd, adamw"):
        methods.make("float32", optimizer="adam")
    with pytest.raises(ConfigError, match="adapt: weight_decay is decoupled, of optimizer=adamw; use l2"):
        methods.make("adapt", weight_decay=0.1)
    for key in ("warmup", "cosine", "optimizer", "clip", "label_smoothing"):
        with pytest.raises(ConfigError, match=f"unknown key of method 'wageubn' '{key}'"):
            methods.make("wageubn", **{key: 1})


@pytest.mark.parametrize("options", [{}, {"clip": 1.0}, {"optimizer": "adamw"}])
def test_gradients_that_are_no_numbers_are_named(options: dict[str, Any]) -> None:
    run = built("float32", **options)
    layer = run.model.fc2
    for bad in (np.nan, np.inf):
        gradient = np.zeros(layer.weight.shape, np.float32)
        gradient[3, 1] = bad
        with pytest.raises(NumberError, match=r"fc2/gW: NaN or infinity at index \(3, 1\)"):
            run.method.update(layer, layer.weight, gradient)


def test_squares_beyond_float32_are_named() -> None:
    run = built("float32", optimizer="adamw")
    layer = run.model.fc2
    gradient = np.full(layer.weight.shape, 1e-3, np.float32)
    gradient[0, :2] = 3e21
    with pytest.raises(NumberError, match="fc2/W: 2 squared gradients are beyond float32: set clip"):
        run.method.update(layer, layer.weight, gradient)
