"""A pack of layers to be run again: its model and its method as PACK.json has them, step by step."""

from collections.abc import Iterator

from intnet import methods, models
from intnet.packs.layers.expressions import Load
from intnet.packs.layers.paths import Maker
from intnet.packs.pack import Pack
from intnet.packs.ports import HEADS, Json


class Again:
    """What a pack's layers are run by, and `made`, which collects the ports of the new draft."""

    def __init__(self, pack: Pack) -> None:
        given = pack.manifest["generator"]
        self.pack, self.method = pack, methods.make(given["method"], **given["options"])
        self.model = models.make(given["model"], tuple(given["image_shape"]), given["classes"])
        self.layers = {layer.name: layer for layer in self.model.all_layers()}
        self.method.follow(self.model.all_layers())
        self.made = Maker(self.method, {key: value for key, value in given.items() if key != "intnet"})
        self.loads = {name: Load(pack, self.made.names, name) for name in (*self.layers, *HEADS)}

    def steps(self) -> Iterator[Json]:
        """Every step of `replay`, with the method at it."""
        seed = self.pack.manifest["generator"]["seed"]
        for step in self.pack.manifest["about"]["replay"]:
            self.method.set(seed=seed, step=step["step"] - 1, epoch=step["epoch"])
            if self.method.moves_within_epochs:
                self.method.steps_per_epoch = step["steps_per_epoch"]
            yield step
