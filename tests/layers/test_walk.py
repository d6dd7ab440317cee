"""docs/a-tensors-walk.md tells the calls of a real step, in their order."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest

from intnet import datasets, methods, models
from intnet.layers.products import Conv2d
from intnet.methods.wageubn import Wageubn
from intnet.training.train import Run
from tests.support.docs_pages import ROOT

LAYER = "layer1.0.conv1"
PAGE = ROOT / "docs" / "a-tensors-walk.md"
ROW = re.compile(r"^\| `([a-z0-9_/]+\.py)` \| `(\w+)` \|")
MOST = 11  # files that a hidden convolution enters on its way forward

Call = tuple[str, str]


def told(title: str) -> list[Call]:
    """(file, function) of each row of a section."""
    section = PAGE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return [(found[1], found[2]) for line in section.splitlines() if (found := ROW.match(line))]


class Traced:
    """Calls into the package while entered."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        path = frame.f_code.co_filename.replace("\\", "/")
        if event == "call" and path.startswith(str(ROOT / "intnet")):
            self.calls.append((path.removeprefix(f"{ROOT / 'intnet'}/"), frame.f_code.co_name))

    def of(self, function: Any) -> Any:
        """The function, traced."""

        def traced(*args: Any, **more: Any) -> Any:
            before = sys.getprofile()
            sys.setprofile(self)
            try:
                return function(*args, **more)
            finally:
                sys.setprofile(before)

        return traced


def holds(wanted: list[Call], calls: list[Call]) -> str:
    """'' where `wanted` is a subsequence of `calls`, else the first that does not come."""
    rest = iter(calls)
    for one in wanted:
        if not any(call == one for call in rest):
            return f"{one[0]}: {one[1]} does not come in this place"
    return ""


def a_step(monkeypatch: pytest.MonkeyPatch) -> dict[str, Traced]:
    """The third step of a run, its parts traced."""
    data = datasets.load("digits")
    run = Run(models.MODELS["resnet8"](data.image_shape, data.classes), methods.make("wageubn"), data, 16, 1)
    for _ in range(2):  # tables are made, kernels compiled
        run.train_step()
    parts = {name: Traced() for name in ("Forward", "The error back", "The update")}
    own_forward, own_gradient = Conv2d.forward, Wageubn.gradient

    def forward(self: Conv2d, *args: Any) -> Any:
        return (parts["Forward"].of(own_forward) if self.name == LAYER else own_forward)(self, *args)

    def gradient(self: Wageubn, layer: Any, *args: Any) -> Any:
        return (parts["The update"].of(own_gradient) if layer.name == LAYER else own_gradient)(
            self, layer, *args
        )

    monkeypatch.setattr(Conv2d, "forward", forward)
    monkeypatch.setattr(Wageubn, "gradient", gradient)
    monkeypatch.setattr(Wageubn, "update_all", parts["The update"].of(Wageubn.update_all))
    monkeypatch.setattr("intnet.training.train.backward", parts["The error back"].of(_backward()))
    run.train_step()
    return parts


def _backward() -> Any:
    from intnet.autograd import backward

    return backward


@pytest.mark.slow
def test_the_page_tells_the_calls_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = a_step(monkeypatch)
    for title, traced in parts.items():
        rows = told(title)
        assert len(rows) > 8, title
        assert holds(rows, traced.calls) == "", title
    files = {path for path, _ in parts["Forward"].calls}
    assert files == {path for path, _ in told("Forward")}
    assert len(files) <= MOST


def test_another_order_is_found() -> None:
    calls = [("a.py", "f"), ("b.py", "g"), ("a.py", "h")]
    assert holds([("a.py", "f"), ("a.py", "h")], calls) == ""
    assert holds([("a.py", "h"), ("b.py", "g")], calls) == "b.py: g does not come in this place"
