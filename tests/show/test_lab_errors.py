"""What the lab calls an error, a bias and a variance: those of `inspect`, exactly."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from intnet.cli.main import main
from intnet.spec import formats
from tests.support.browser import CHROMIUM, Browser


def plain(x: Fraction) -> str:
    return f"{x.numerator}/{x.denominator}"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
def test_errors_of_cq_are_those_of_its_steps(tmp_path: Path) -> None:
    """Its value gives up the magnitude of x: SQNR, bias, variance are of code * R / dr, as in `measure`."""
    xs, drawn = [Fraction(k, 100) for k in (30, -72, 110, 0, -5, 61)], [1, 2**31, 2**32 - 1, 7, 3 * 2**30, 9]
    formula = formats.Constant(15, 128)
    grid = formula.grid(xs)
    ways = [formula.way(x, grid, "stochastic", word) for x, word in zip(xs, drawn, strict=True)]
    errors = [way.code * way.step - x for way, x in zip(ways, xs, strict=True)]
    sqnr = 10 * math.log10(sum(x * x for x in xs) / sum(e * e for e in errors))
    file = tmp_path / "lab.html"
    assert main(["lab", str(file)]) == 0
    with Browser() as browser:
        browser.open(file, 1300, 800)
        shown = browser.evaluate(f"""(() => {{
      const xs = {json.dumps([plain(x) for x in xs])}.map(exact.parse);
      const o = {{format: "cq", k: 15, log_dr: 7, mode: "stochastic", bits: 32}};
      const made = quantize.formatted(xs, o, {json.dumps(drawn)}.map(BigInt));
      const chances = quantize.chances(xs[0], FORMATS.cq, made[0].grid, o);
      return [quantize.facts(made).sqnr, exact.number(chances.bias), exact.number(chances.variance)];
    }})()""")
    step, decided = ways[0].step, ways[0].decision
    p = Fraction(decided.threshold or 0, 2**32)
    assert shown[0] == pytest.approx(sqnr, abs=1e-9) and sqnr > 20
    assert shown[1:] == [float((p - decided.fraction) * step), float(p * (1 - p) * step**2)]
