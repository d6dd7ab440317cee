"""mlp: flatten, two hidden layers (linear, batch norm, ReLU), a linear classifier."""

from intnet.layers import BatchNorm2d, Flatten, Linear, ReLU
from intnet.models.model import Model

HIDDEN = 64


class MLP(Model):
    """Linear-BN-ReLU twice, then Linear."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, hidden: int = HIDDEN) -> None:
        super().__init__("mlp", image_shape, classes)
        height, width, channels = image_shape
        self.flatten = Flatten()
        self.flattened = {"fc1": image_shape}
        self.fc1 = Linear(height * width * channels, hidden, bias=False)
        self.bn1 = BatchNorm2d(hidden)
        self.relu1 = ReLU()
        self.fc2 = Linear(hidden, hidden, bias=False)
        self.bn2 = BatchNorm2d(hidden)
        self.relu2 = ReLU()
        self.fc3 = Linear(hidden, classes)
        self.finish()
