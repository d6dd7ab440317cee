"""Lines of kind 'map' made up from blocks, and what they cost, in fractions and without intnet.

A block is (T, bits): the multiply-adds that read it and its width. `Blocks`: layer -> operand -> blocks.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

Block = tuple[int, int]
Blocks = dict[str, dict[str, list[Block]]]

WIDTHS = (0, 2, 4, 6, 8)


def made_up(names: list[str], seed: int, widths: tuple[int, ...] = WIDTHS) -> Blocks:
    """The same T for every seed, other widths; the first layer has no activations."""
    fixed, draw = random.Random(0), random.Random(seed)
    found: Blocks = {}
    for name in names:
        found[name] = {}
        total = 0
        for operand in ("weights", "activations")[: 1 if name == names[0] else 2]:
            sizes = [fixed.randrange(1, 1000) for _ in range(fixed.randrange(2, 9))]
            if operand == "weights":
                total = sum(sizes) + 1000
            sizes.append(total - sum(sizes) if total > sum(sizes) else 1)
            found[name][operand] = [(size, draw.choice(widths)) for size in sizes]
    return found


def at(blocks: Blocks, bits: int) -> Blocks:
    """The same blocks, all of one width."""
    return {
        name: {operand: [(t, bits) for t, _ in pairs] for operand, pairs in operands.items()}
        for name, operands in blocks.items()
    }


def line(blocks: Blocks, epoch: int, per_epoch: int) -> dict[str, Any]:
    """As the method writes it at the end of an epoch (from 0)."""
    layers = {
        name: {operand: entry(pairs, epoch) for operand, pairs in operands.items()}
        for name, operands in blocks.items()
    }
    whole = {
        operand: summary([p for operands in blocks.values() for p in operands.get(operand, [])], epoch)
        for operand in ("weights", "activations")
    }
    told = {"kind": "map", "step": (epoch + 1) * per_epoch, "epoch": epoch, "seconds": 0.25}
    return told | whole | {"layers": layers}


def mean(pairs: list[Block]) -> Fraction:
    return Fraction(sum(bits for _, bits in pairs), len(pairs))


def mac_mean(pairs: list[Block]) -> Fraction:
    return Fraction(sum(t * bits for t, bits in pairs), sum(t for t, _ in pairs))


def idle(pairs: list[Block]) -> Fraction:
    return Fraction(sum(t for t, bits in pairs if bits == 0), sum(t for t, _ in pairs))


def entry(pairs: list[Block], epoch: int) -> dict[str, Any]:
    return {
        "blocks": len(pairs),
        "macs": sum(t for t, _ in pairs),
        "mean": float(mean(pairs)),
        "mac_bits": float(mac_mean(pairs)),
        "skipped": float(idle(pairs)),
        "counts": [sum(bits == width for _, bits in pairs) for width in WIDTHS],
        "r": [-60.5 + len(pairs), -33.25, -31.0 - epoch / 4, -30.5, -20.0 + len(pairs)],
        "infinite": 0,
        "change": 0.5 / (epoch + 1),
        "change_new": 1.0 + len(pairs) / 8,
    }


def summary(pairs: list[Block], epoch: int) -> dict[str, Any]:
    return {
        "alpha": 4.0,
        "lambda": -36.0 - epoch / 2,
        "mean": float(mean(pairs)),
        "smoothed": float(mean(pairs)) + 0.125,
        "exact": 4.0,
        "untuned": 4.5 + epoch / 4,
        "mac_bits": float(mac_mean(pairs)),
        "skipped": float(idle(pairs)),
        "loss_noise": {"before": 3e-9, "after": 2e-9, "uniform": 2e-9 * (5 + epoch)},
    }


# -- what they cost ----------------------------------------------------------------------------


def products(blocks: Blocks, forward: str = "activation") -> dict[str, list[Block]]:
    """Stage -> all blocks of its dynamic operands; the network's input is of 8 bits."""
    found: dict[str, list[Block]] = {"forward": [], "backward": [], "update": []}
    for operands in blocks.values():
        first = "activations" not in operands
        activations = [(t, 8) for t, _ in operands["weights"]] if first else operands["activations"]
        found["forward"] += activations if forward == "activation" else operands["weights"]
        found["backward"] += [] if first else operands["weights"]
        found["update"] += activations
    return found


def time(epochs: list[tuple[Blocks, Fraction]], forward: str = "activation", *stages: str) -> Fraction:
    """sum T b / sum T 8, over epochs, each so many times."""
    spent = full = Fraction(0)
    for blocks, share in epochs:
        for stage, pairs in products(blocks, forward).items():
            if not stages or stage in stages:
                spent += share * sum(t * bits for t, bits in pairs)
                full += share * sum(8 * t for t, _ in pairs)
    return spent / full


def skipped(epochs: list[tuple[Blocks, Fraction]], forward: str = "activation") -> Fraction:
    """Share of multiply-adds that read a block of 0 bits."""
    none = full = Fraction(0)
    for blocks, share in epochs:
        pairs = [pair for part in products(blocks, forward).values() for pair in part]
        none += share * sum(t for t, bits in pairs if bits == 0)
        full += share * sum(t for t, _ in pairs)
    return none / full
