"""How long does a step of DYNASTY take beside float32, and what share of it are its analytics?

ResNet-20, batch 128, random images of 28x28x1, 16 steps an epoch, so that one map in 16 steps counts. The
rows stand beside a float32 step in turns; `analytics` is the share of sensitivities and maps.
"""

from statistics import median
from time import sleep

from bench import training
from bench.summary import Row, at_least, at_most, column
from bench.timing import PAUSE
from bench.training import BATCH, STEPS
from intnet import methods

QUESTION = f"dynasty, resnet20, batch {BATCH}, 28x28x1"
STEP, ANALYTICS = "x float32", "analytics"


def rows() -> list[Row]:
    """Third epochs, under maps of 4 and 2 bits, each step of float32 and of dynasty in turns."""
    found = []
    for bits in (4, 2):
        ours = training.run(methods.make("dynasty", bits=bits), steps=STEPS)
        theirs = training.run(methods.make("float32"), steps=STEPS)
        ours.train(2 * STEPS)
        theirs.train_step()
        pairs, spent, seconds = [], 0.0, 0.0
        for _ in range(STEPS):
            sleep(PAUSE)
            base = theirs.train_step().seconds
            sleep(PAUSE)
            report = ours.train_step()
            pairs.append((base, report.seconds))
            spent, seconds = spent + report.overhead, seconds + report.seconds
        found.append(
            {
                "what": f"step, {bits} bits",
                "seconds": median(own for _, own in pairs),
                "float32": median(base for base, _ in pairs),
                STEP: median(base / own for base, own in pairs),
                ANALYTICS: spent / seconds,
            }
        )
    return found


def targets(rows: list[Row]) -> list[Row]:
    return [
        at_least(0.3, "dynasty step, times float32's, smaller", min(column(rows, STEP))),
        at_most(0.05, "dynasty analytics, share of its steps, larger", max(column(rows, ANALYTICS))),
    ]
