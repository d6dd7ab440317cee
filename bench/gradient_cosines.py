"""How near the first step's gradients of weights are to float32's, under the codecs of saved activations.

    python bench/gradient_cosines.py --data fashion-mnist [--model resnet20] [--batch-size 128] [--seed 1]

A line a codec: the mean over weight layers of the cosine between gW under `saved` and under `float32`, from
the same weights, images and words. A gradient that is 0 throughout has none: it counts as 0.
"""

import argparse

import numpy as np

from intnet import datasets, methods, models
from intnet.methods.trace import Recorder
from intnet.training.train import Run

CODECS = ("symmetric", "levels", "affine", "affine-stochastic")


def gradients(method: methods.Method, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """gW of every weight layer in the first step."""
    data = datasets.load(args.data)
    model = models.make(args.model, data.image_shape, data.classes)
    run, seen = Run(model, method, data, args.batch_size, args.seed), Recorder("*/gW")
    run.train(1, observe_last=[seen])
    return {name: seen[name].astype(np.float64).reshape(-1) for name in seen.events}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of two vectors; 0 where one is 0."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bits", default="1,2,4")
    args = parser.parse_args()
    plain = gradients(methods.make("float32"), args)
    for bits in args.bits.split(","):
        for codec in CODECS:
            found = gradients(methods.make("saved", codec=codec, bits=bits), args)
            mean = np.mean([cosine(plain[name], found[name]) for name in plain])
            print(f"{bits} bits  {codec:<18} {mean:.3f}", flush=True)


if __name__ == "__main__":
    main()
