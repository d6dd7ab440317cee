"""mlp: flatten, two hidden layers (linear, batch norm, ReLU), a linear classifier."""

from intnet.autograd import Tensor
from intnet.layers import BatchNorm2d, Flatten, Linear, ReLU
from intnet.methods.method import Method
from intnet.models.model import Model

HIDDEN = 64


class MLP(Model):
    """Linear-BN-ReLU twice, then Linear."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, hidden: int = HIDDEN) -> None:
        super().__init__("mlp", image_shape, classes)
        height, width, channels = image_shape
        self.flatten = Flatten()
        self.fc1 = Linear(height * width * channels, hidden, bias=False)
        self.bn1 = BatchNorm2d(hidden)
        self.relu1 = ReLU()
        self.fc2 = Linear(hidden, hidden, bias=False)
        self.bn2 = BatchNorm2d(hidden)
        self.relu2 = ReLU()
        self.fc3 = Linear(hidden, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.flatten(x, method)
        x = self.relu1(self.bn1(self.fc1(x, method), method), method)
        x = self.relu2(self.bn2(self.fc2(x, method), method), method)
        return self.fc3(x, method)
