"""`intnet train`: a new run in a new folder."""

import argparse
from typing import Any

from intnet.cli import options, together
from intnet.errors import ConfigError

SUMMARY = "train a model under a method and keep the run in a folder"
EXAMPLE = """\
  intnet train --method wageubn --model resnet8 --data digits --epochs 3 --out runs/first
  intnet train --method wageubn --set e2=16 --set lr=26,13@5 --model mlp --data digits --steps 200 \\
      --out runs/e2
  intnet train --method wageubn --model resnet50 --data cifar10 --weights resnet50.safetensors \\
      --weights-partial --out runs/tuned

--data folder:PATH has PATH/train/CLASS/*.png (or .jpg) and PATH/test/CLASS/ (or val/), see `intnet list`.
--data arrays:FILE.npz has X and y, perhaps X_test and y_test, as numpy.savez writes them.
--augment crop=4,flip moves each image by up to 4 pixels and mirrors about half of them, as the seed says.

The last line of stdout is 'state sha256: HEX', the same on every machine. A run that was stopped or
killed goes on with `intnet resume RUN`. `intnet list` shows all names and the keys of --set."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a new run."""
    need = parser.add_argument_group("what to train")
    options.add(need, *options.NAMES, required=True)
    need.add_argument("--out", required=True, metavar="RUN", help="the run's folder, new or empty")
    how = parser.add_argument_group("how")
    options.add_length(how, "1 unless told")
    options.add(how, "--seed", *options.SETTINGS, "--weights", "--weights-partial", "--checkpoint-every")
    options.add(how, "--stats", "--stats-every")


def show_weights(given: dict[str, Any], args: argparse.Namespace) -> None:
    """What was taken of a file, and what was not."""
    print(
        f"first weights from {args.weights}: {given['tensors']:,} tensors, {given['numbers']:,} numbers; as "
        f"{args.method} stores them {given['rounded']:,} are rounded, {given['limited']:,} limited"
    )
    for name, why in given["left"].items():
        print(f"  left out: {name}: {why}")
    if given["passed_over"]:
        print(f"  passed over: {given['passed_over']:,} num_batches_tracked, which nothing here reads")


def run(args: argparse.Namespace) -> int:
    """Make the folder and train."""
    from intnet.cli import terminal
    from intnet.runs import many_ranks, run_folder

    chosen = options.settings(args.set)
    if args.weights_partial and args.weights is None:
        raise ConfigError("--weights-partial: there is no --weights FILE to take a part of")
    options.check_stats(args.stats, args.stats_every)
    if together.writes():
        run_folder.check_unused(args.out)  # before anything that takes time
    new = run_folder.build(
        args.method, chosen, args.model, args.data, args.batch_size, args.seed, args.limit, args.data_dir,
        args.augment, args.image_size, args.weights, args.weights_partial,
    )  # fmt: skip
    if new.weights is not None and not args.json:
        show_weights(new.weights, args)
    steps = args.steps or (args.epochs or 1) * new.steps_per_epoch
    with many_ranks.create(args.out, new, steps, args.checkpoint_every, args.data_dir) as work:
        return terminal.train(work, args)
