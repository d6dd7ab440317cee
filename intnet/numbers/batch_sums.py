"""The order of a float32 sum over a batch, so that any machine can add up whole groups of its images.

    group    GROUP images by number, the last one maybe fewer; its terms are summed in chunks of CHUNK, which
             begin anew in every group, and the chunk sums are added in ascending order from +0
    tree     groups 2i and 2i + 1 meet, then pairs of pairs by the same rule; an odd last one goes up as it is

Blocks of 2^k groups that begin at a multiple of 2^k are nodes of the tree: a block's sum may be made
anywhere, and any division of the batch into whole groups gives the same bits. A stack of sums makes the
tree, group after group: what its last sums do when a group joins them is `joins`, the one rule of it.

Defined by `spec/float32.py: batch_sum32`, `spec/float32.py: batch_dot32`, `spec/float32.py: tree_units`.
"""

import numpy as np

from intnet.machine.jit import njit, rule
from intnet.numbers.fp32 import CHUNK

GROUP = 16  # images whose terms are one sum


def node_of(groups: int) -> int:
    """The greatest power of two up to `groups`, at least 1: groups of a node of the tree."""
    return 1 << max(0, groups.bit_length() - 1)


def chunks_in(rows: int, per_image: int) -> int:
    """Chunks of a batch of `rows` terms, `per_image` of them an image."""
    whole, rest = divmod(rows, GROUP * per_image)
    return whole * chunks_of_group(per_image) + -(-rest // CHUNK)


@njit
def chunks_of_group(per_image: int) -> int:
    """Chunks of a whole group."""
    return (GROUP * per_image + CHUNK - 1) // CHUNK


@rule
def chunk_rows(chunk: int, per_image: int, rows: int) -> tuple[int, int]:
    """(begin, end): the terms of a chunk, counted over all groups, in a batch of `rows` terms."""
    chunks, size = chunks_of_group(per_image), GROUP * per_image
    group = chunk // chunks
    begin = group * size + chunk % chunks * CHUNK
    return begin, min(begin + CHUNK, (group + 1) * size, rows)


# --- the tree -----------------------------------------------------------------------------------


@njit
def stack_lines(groups: int) -> int:
    """Sums that a stack for so many groups must hold."""
    lines = 1
    while groups >> lines:
        lines += 1
    return lines


@njit
def joins(group: int, last: bool) -> int:
    """How often the two sums on top of the stack meet once the sum of `group` lies there.

    A group whose number ends in k ones completes 2^k groups; after the last group, all that is left meets.
    """
    met = 0
    while group > 0 and (last or group & 1):
        met += group & 1
        group >>= 1
    return met


@rule
def meetings(groups: int) -> np.ndarray:
    """`joins` of every group of a batch, int64."""
    out = np.empty(groups, np.int64)
    for group in range(groups):
        out[group] = joins(group, group == groups - 1)
    return out


@njit
def settle(stack: np.ndarray, top: int, group: int, last: bool) -> int:
    """`joins` on the lines of stack[lines, words], with the sum of `group` in line `top`; the top then."""
    for _ in range(joins(group, last)):
        upper, lower = stack[top], stack[top - 1]
        for j in range(lower.size):
            lower[j] += upper[j]
        top -= 1
    return top


@rule
def add_chunks(parts: np.ndarray, at: int, stride: int, chunks: int, per_group: int, stack: np.ndarray,
               line: np.ndarray) -> None:  # fmt: skip
    """line += the sum of chunk sums parts[at + k*stride ..], k < chunks, `per_group` of them a group.

    The first group's chain begins with `line`: 0, or what its chunks before these came to; `stack` is
    stack_lines(groups) long, and at least as wide as the line.
    """
    groups, top = (chunks + per_group - 1) // per_group, np.int64(0)
    for group in range(groups):
        total = stack[top]
        for j in range(line.size):
            total[j] = line[j] if group == 0 else 0
        for chunk in range(group * per_group, min((group + 1) * per_group, chunks)):
            part = parts[at + chunk * stride : at + chunk * stride + line.size]
            for j in range(line.size):
                total[j] += part[j]
        top = settle(stack, top, group, group == groups - 1) + 1
    if groups:
        for j in range(line.size):
            line[j] = stack[0, j]
