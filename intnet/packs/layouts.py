"""Other layouts of a pack's files, as asked for when it is written: order of axes, lanes, bits of a word.

    laid_out(draft, Choice("nc/16hw16", lanes=16, word=64))

`order` is that of data; weights go along, their Cout as N, their Cin as C:

    nhwc        N,H,W,C          Cout,Cin,kh,kw         as builders write them
    nchw        N,C,H,W          Cout,Cin,kh,kw
    nc/16hw16   N,C/16,H,W,C%16  Cout,Cin/16,kh,kw,Cin%16     16, or any number: zeros fill the last block

Without `lanes` a row has as many as divide the file's fastest axis and fit a word; without `word` a word is
as wide as its row. Random words stand in the order of the elements that they round. A unit's words keep a
beat for themselves. What was asked is kept in PACK.json (`about.layout`), each port's own order, lanes and
word beside its name; digests of a chain are taken of the files as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import prod

from intnet.errors import ConfigError
from intnet.numbers.hexfiles import MOST_BITS
from intnet.packs import lines
from intnet.packs.ports import Draft, Filled, Json, Port, lanes_of, step_prefix

ORDERS = "nhwc, nchw or nc/XhwX, with X channels a block, as in nc/16hw16"
MOST_CHANNELS = 4096  # of a block
DATA, WEIGHTS = ("N", "C", "H", "W"), ("Cout", "Cin", "kh", "kw")
TILE = "tile"  # the first axis of partial sums


@dataclass(frozen=True)
class Choice:
    """What was asked for; None: as builders have it. ConfigError says what cannot be."""

    order: str = "nhwc"
    lanes: int | None = None
    word: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ("nhwc", "nchw"):
            self.block()
        for name, most in (("lanes", MOST_BITS), ("word", MOST_BITS)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise ConfigError(f"--{name} {value}: give a number from 1 to {most}")

    def block(self) -> int:
        """Channels of a block; 0 of an order without."""
        found = re.fullmatch(r"nc/([1-9][0-9]{0,3})hw\1", self.order)
        if not found and self.order in ("nhwc", "nchw"):
            return 0
        if not found or int(found[1]) > MOST_CHANNELS:
            raise ConfigError(f"--layout {self.order}: give {ORDERS} (up to {MOST_CHANNELS})")
        return int(found[1])

    def __str__(self) -> str:
        parts = [self.order.replace("/", "_")] * (self.order != "nhwc")
        parts += [f"{name}{value}" for name, value in (("lanes", self.lanes), ("word", self.word)) if value]
        return "-".join(parts)


def laid_out(draft: Draft, choice: Choice) -> Draft:
    """The draft with its files as asked; ConfigError where a port has no such layout."""
    if choice == Choice():
        return draft
    unit = "unit" in draft.about
    if unit and choice.order != "nhwc":
        raise ConfigError(f"--layout {choice.order} is for data with channels: a unit's words are beats")
    put = _beats if unit else _tensors
    ports = put(draft, choice)
    about = dict(draft.about) | {"layout": asdict(choice)}
    if "chain" in about:
        about["chain"] = [_link(link, ports, draft) for link in about["chain"]]
    return replace(draft, name=f"{draft.name}-{choice}", ports=ports, about=about)


# -- layers --------------------------------------------------------------------------------------


def _tensors(draft: Draft, choice: Choice) -> list[Filled]:
    rounded = {} if choice.order == "nhwc" else _rounded_by(draft)
    made: list[Filled] = []
    for port, codes in draft.ports:
        of = rounded.get(port.name, port)
        one = replace(port, shape=of.shape, axes=of.axes)
        made.append((_fitted(replace(one, order=order_of(one, choice)), choice), codes.reshape(of.shape)))
    return made


def _rounded_by(draft: Draft) -> dict[str, Port]:
    """Random words, one an element -> the port that they round."""
    ports = {port.name: port for port, _ in draft.ports}
    found: dict[str, Port] = {}
    for port in ports.values():
        words = ports.get(str(port.rounding.get("words")))
        if words is not None and words.axes == "element" and words.shape == (prod(port.shape),):
            found.setdefault(words.name, port)
    return found


def order_of(port: Port, choice: Choice) -> str:
    """The order of a port's file; '' where it is C order."""
    names = port.axes.split(",")
    ahead = names[:1] if names[0] == TILE else []
    inner = names[len(ahead) :]
    for kind in (DATA, WEIGHTS):
        mine = [next((name for name in inner if name.split("/")[0] == axis), None) for axis in kind]
        present = [name for name in mine if name is not None]
        if len(present) != len(inner) or len(inner) < 2 or choice.order == "nhwc":
            continue
        size, channel = choice.block(), kind[1]
        if size and present[1] == channel:  # blocks of channels are not cut once more
            present[1:] = [f"{channel}/{size}", *present[2:], f"{channel}%{size}"]
        order = ",".join(ahead + present)
        return "" if order == port.axes else order
    return ""


def _fitted(port: Port, choice: Choice) -> Port:
    """With its lanes and its word."""
    if choice.lanes is not None:
        if choice.word is None and choice.lanes * port.bits > MOST_BITS:
            raise ConfigError(
                f"--lanes {choice.lanes}: {port.name} has elements of {port.bits} bits, and a word at most "
                f"{MOST_BITS}: give {MOST_BITS // port.bits} or fewer, or --word BITS, which cuts rows"
            )
        lanes = choice.lanes
    else:
        lanes = lanes_of(port.file_shape, port.bits, choice.word or MOST_BITS)
    return _worded(replace(port, lanes=lanes), choice)


def _worded(port: Port, choice: Choice) -> Port:
    word = choice.word or 0
    return replace(port, word=0 if word == port.row_bits else word)


# -- units ---------------------------------------------------------------------------------------


def _beats(draft: Draft, choice: Choice) -> list[Filled]:
    """A beat's lanes in rows of fewer; words of another width."""
    made: list[Filled] = []
    sizes = [port.shape[1] if len(port.shape) > 1 else 1 for port, _ in draft.ports]
    if choice.lanes is not None and choice.lanes > max(sizes):
        raise ConfigError(
            f"--lanes {choice.lanes}: no beat of this unit has so many: give a number up to {max(sizes)}"
        )
    for (port, codes), size in zip(draft.ports, sizes, strict=True):
        lanes = port.lanes if choice.lanes is None else min(choice.lanes, size)
        if size % lanes:
            raise ConfigError(
                f"--lanes {lanes}: a beat of {port.name} has {size} lanes, and no word holds two beats: "
                f"give a number that divides {size}"
            )
        made.append((_worded(replace(port, lanes=lanes), choice), codes))
    return made


# -- digests -------------------------------------------------------------------------------------


def _link(link: Json, ports: Sequence[Filled], draft: Draft) -> Json:
    """A step of a chain with the digest of its files as they are now."""
    outs = [filled for filled in ports if filled[0].direction == "out"]
    if "first" in link:
        return dict(link) | {"sha256": lines.digest(outs, slice(link["first"], link["last"] + 1))}
    start = step_prefix(link["step"], draft.generator)
    mine = [filled for filled in outs if filled[0].name.startswith(start)]
    return dict(link) | {"sha256": lines.digest(sorted(mine, key=lambda one: one[0].file))}
