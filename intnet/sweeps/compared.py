"""What `intnet compare` tells of runs otherwise than a sweep: a row a method and settings, and their figures.

`figures.numbers` are those of a run; `Compared.columns` is what a person reads; `LEGEND` and `notes` say what
its columns are.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from intnet.show.tables import Get, text
from intnet.sweeps import figures, plots
from intnet.sweeps.figures import COPIES, KINDS, SIDES, operand_key
from intnet.sweeps.plan import Plan, Point
from intnet.sweeps.rows import Numbers, Row
from intnet.sweeps.table import Sweep
from intnet.training.tape import KB, MB

LEGEND = (
    "W, x, e, gW: bits of the weights, inputs, errors and weight gradients of the weight layers in the last "
    "step, means over elements: what the format names (what the widest code of a layer needed); float32 "
    "counts as 32. Forward/backward where products read two copies.",
    "SU: training over float32 by AdaPT's performance model, the backward pass of every method in float32, "
    "as printed; SU own: the backward pass in the word length of the method's own errors. Of the forward "
    "products it counts the weights' bits alone, of adapt and muppet without weights that are zero.",
    "model: bytes of the parameters that inference reads, packed; tape: bytes that the last step "
    "saves for its backward pass, as this program holds them, and packed: in the bits that formats name, or "
    "that codes need where those are more. kB are 2^10 bytes, MB 2^20.",
    "images/s: median of all training steps; peak: the most memory of the process that trained the run, of "
    "an interrupted one the last. Both are measured: they compare methods only where runs were trained one "
    "at a time on an idle machine, with kernels that were compiled before.",
)

MEASURED = {  # key of the figures -> heading, how it is written, what it is divided by
    "speedup": ("SU", ".2f", 1),
    "speedup_own": ("SU own", ".2f", 1),
    "model_bytes": ("model kB", ",.1f", KB),
    "tape_bytes": ("tape MB", ",.2f", MB),
    "tape_bytes_packed": ("packed", ",.2f", MB),
    "images_per_second": ("images/s", ",.0f", 1),
    "peak_bytes": ("peak MB", ",.0f", MB),
}


class Compared(Sweep):
    """The results of `intnet compare`."""

    command = "compare"
    picture = plots.COMPARISON

    def numbers(
        self, point: Point, seed: int, report: dict[str, Any], curve: Sequence[float | None]
    ) -> Numbers:
        """All figures of the run."""
        return figures.numbers(self.folder, self.plan, point, seed, report, curve)

    def keys(self) -> Iterable[str]:
        """Those that a run has."""
        return dict.fromkeys(key for row in self.rows for own in row.numbers.values() for key in own)

    def label(self, point: Point) -> str:
        """The method too."""
        return name(self.plan, point)

    def settings(self, point: Point) -> dict[str, str]:
        """In one text."""
        return {"settings": " ".join(f"{key}={value}" for key, value in point.settings.items())}

    def about(self, point: Point) -> dict[str, Any]:
        """The whole point and its name."""
        whole = {"name": self.label(point), "method": point.method, "settings": point.settings}
        return whole | {"options": point.options}

    def state(self, report: dict[str, Any]) -> str:
        """The trained bits, and how many images they get right."""
        return f"{report['state_sha256']} {report['test_accuracy']!r}"

    def columns(self) -> tuple[list[Get], list[Get]]:
        """A column an operand and a figure; how many runs are done where that is not plain."""
        left: list[Get] = [("method", "", lambda row: self.label(row.point))]
        right: list[Get] = [("runs", "", self.count)] * (self.several or self.done < self.runs)
        right += self.measured("test_accuracy", "accuracy", ".2%", spread=True)
        right += [(name, "", lambda row, name=name: _bits(row, name)) for name in COPIES]
        for key, (heading, spec, unit) in MEASURED.items():
            right += self.measured(key, heading, spec, unit=unit)
        return left, right

    def remarks(self, console: Console) -> None:
        """What the columns mean, and what is true of these runs."""
        print()
        for note in (*LEGEND, *self.notes()):
            console.print(note, style="dim", soft_wrap=not console.is_terminal)

    def foot(self) -> list[str]:
        """The same in Markdown, and the digest."""
        notes = [f"- {note}" for note in (*LEGEND, *self.notes())]
        return [*notes, f"- compare sha256: `{self.digest()}`"]

    def notes(self) -> list[str]:
        """Settings, DYNASTY's own model, how runs were timed, what is missing."""
        found = []
        for row in self.rows:
            label, own = self.label(row.point), self.settings(row.point)["settings"]
            if not label.endswith(own):
                found.append(f"{label}: {own}")
        for row in self.rows:
            time = row.mean("array_time")
            if time is not None:
                found.append(
                    f"{self.label(row.point)}, by its own model and against 8 bits everywhere, not float32: "
                    f"a bit-serial array takes {time:.1%} of the time, {1 / time:.2f} times as fast."
                )
        for row in self.rows:
            memory, zeros = row.mean("memory"), row.mean("sparsity_mean")
            if memory is not None and zeros is not None:
                found.append(
                    f"{self.label(row.point)}, by AdaPT's model: MEM {memory:.2f}, {zeros:.1%} of the "
                    "weights are zero over training; `intnet costs` of a run has SZ and SU of inference."
                )
        for images in sorted({images for row in self.rows for images in row.values("tape_images")}):
            found.append(f"tape: of {images:,.0f} images, which the last step had.")
        timed = {(own["threads"], own["beside"]) for row in self.rows for own in row.numbers.values()}
        for threads, beside in sorted((each for each in timed if None not in each), key=str):
            found.append(
                f"Timed in processes of {threads:.0f} thread{'s' * (threads != 1)}, {beside:.0f} at a time."
            )
        if self.done < self.runs:
            found.append(f"{self.done:,} of {self.runs:,} runs are done.")
        return found + self.failed()


RESULTS: dict[str, type[Sweep]] = {made.command: made for made in (Sweep, Compared)}  # by the command


def name(plan: Plan, point: Point) -> str:
    """'wageubn e2=16': a sweep's label, which leaves out the method where all points have one."""
    label = plan.label(point)
    return label if label.split()[0] == point.method else f"{point.method} {label}"


def _bits(row: Row, operand: str) -> str:
    """'8.1 (7.4)', or '8/4.1 (8/4)' where forward and backward differ."""
    both = []
    for kind in KINDS:
        means = [row.mean(operand_key(operand, side, kind)) for side in SIDES]
        if None in means:
            return "-"
        both.append([text(mean, ".1f").removesuffix(".0") for mean in means])
    nominal, used = (
        texts[0] if all(each[0] == each[1] for each in both) else "/".join(texts) for texts in both
    )
    return nominal if nominal == used else f"{nominal} ({used})"
