"""What a type checker knows of the public names: wrong arguments and options are found, right ones pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).resolve().parent.parent

# --strict, of the user's file alone: the types of all others are read from what `make lint` has kept
STRICT = """\
# mypy: disallow-any-generics, disallow-subclassing-any, disallow-untyped-calls, disallow-untyped-defs
# mypy: disallow-incomplete-defs, check-untyped-defs, disallow-untyped-decorators, warn-redundant-casts
# mypy: warn-unused-ignores, warn-return-any, no-implicit-reexport, strict-equality, extra-checks
"""

WRONG = {
    'FixedPoint("eight", 6)': 'Argument 1 to "FixedPoint" has incompatible type "str"; expected "int"',
    "fit(model, methods.Wageubn(), data, epocs=3)": 'Unexpected keyword argument "epocs" for "fit"',
    'methods.Wageubn(lrr="26")': 'Unexpected keyword argument "lrr" for "Wageubn"',
    'methods.Wageubn(edges="int8")': 'Argument "edges" to "Wageubn" has incompatible type',
    'methods.Wageubn("16")': 'Too many positional arguments for "Wageubn"',
    "methods.Float32(nesterov=3)": 'Unexpected keyword argument "nesterov" for "Float32"',
    'methods.Adapt(eps="0")': 'Argument "eps" to "Adapt" has incompatible type "str"; expected "float"',
    "methods.Muppet(patience=1.5)": 'Argument "patience" to "Muppet" has incompatible type "float"',
    'methods.Dynasty(bits="4")': 'Argument "bits" to "Dynasty" has incompatible type "str"; expected "float"',
    'methods.Saved(codec="affin")': 'Argument "codec" to "Saved" has incompatible type',
    'models.resnet8(data.image_shape, "ten")': 'Argument 2 to "resnet8" has incompatible type "str"',
    "quantize(data, FixedPoint(8, 6))": 'No overload variant of "quantize" matches argument types "Dataset"',
    "intnet.fitt": 'Module has no attribute "fitt"',
}


@pytest.mark.slow
def test_the_readme_passes_and_wrong_calls_do_not(tmp_path: Path) -> None:
    block = re.search(r"## In Python\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block is not None
    right = STRICT + block[1] + "\nimport intnet\nfrom intnet import FixedPoint, ops, quantize\nops.add\n"
    right += 'methods.Wageubn(e2="16", saturate=4)\nmethods.Saved(bits="2/4", momentum=0.5)\n'
    path = tmp_path / "user.py"
    path.write_text(right + "\n".join(WRONG) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = dict(re.findall(r"user\.py:(\d+): error: (.*)", done.stdout))
    first = right.count("\n") + 1
    for line, (call, says) in enumerate(WRONG.items(), first):
        assert found.pop(str(line), "nothing").startswith(says), (call, done.stdout)
    assert not found, done.stdout + done.stderr
