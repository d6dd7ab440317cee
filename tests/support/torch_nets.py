"""PyTorch's way of running a state dict, in float64: NCHW, its names, its order of flattened images.

Inference of residual networks and of alexnet, written from torchvision's description of them, to judge names,
shapes and layouts of what `runs/state_dicts.py` reads and writes. Shares no code with the library.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

State = Mapping[str, np.ndarray]


def conv(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0) -> np.ndarray:
    kh, kw = w.shape[2:]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyxij,ocij->noyx", seen, w, optimize=True)


def max_pool(x: np.ndarray, kernel: int, stride: int, padding: int = 0) -> np.ndarray:
    edge = (padding, padding)
    x = np.pad(x, ((0, 0), (0, 0), edge, edge), constant_values=-np.inf)
    seen = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return seen[:, :, ::stride, ::stride].max(axis=(4, 5))


def norm(state: State, name: str, x: np.ndarray) -> np.ndarray:
    mean, variance, gamma, beta = (
        state[f"{name}.{key}"].astype(np.float64)[None, :, None, None]
        for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


def resnet(state: State, images: np.ndarray, stem: str, stages: int) -> np.ndarray:
    """Logits of images (N, C, H, W); a block has as many convolutions as it has names for."""
    x = conv(images, state["conv1.weight"], *((2, 3) if stem == "imagenet" else (1, 1)))
    x = np.maximum(norm(state, "bn1", x), 0)
    x = max_pool(x, 3, 2, 1) if stem == "imagenet" else x
    for stage in range(1, stages + 1):
        k = 0
        while f"layer{stage}.{k}.conv1.weight" in state:
            x = _block(state, f"layer{stage}.{k}", x, stride=2 if stage > 1 and k == 0 else 1)
            k += 1
    return x.mean(axis=(2, 3)) @ state["fc.weight"].T + state["fc.bias"]


def _block(state: State, at: str, x: np.ndarray, stride: int) -> np.ndarray:
    three = f"{at}.conv3.weight" in state
    strides = (1, stride, 1) if three else (stride, 1)
    paddings = (0, 1, 0) if three else (1, 1)
    y = x
    for k, (step, padding) in enumerate(zip(strides, paddings, strict=True), start=1):
        y = norm(state, f"{at}.bn{k}", conv(y, state[f"{at}.conv{k}.weight"], step, padding))
        y = np.maximum(y, 0) if k < len(strides) else y
    if f"{at}.downsample.0.weight" in state:
        x = norm(state, f"{at}.downsample.1", conv(x, state[f"{at}.downsample.0.weight"], stride))
    return np.maximum(x + y, 0)


def alexnet(state: State, images: np.ndarray) -> np.ndarray:
    """Logits of images (N, C, H, W) whose features are one pixel: its six means a side are all that pixel."""
    x = images
    strides = {0: (4, 2), 3: (1, 2), 6: (1, 1), 8: (1, 1), 10: (1, 1)}  # layer: stride and padding
    for layer, (stride, padding) in strides.items():
        bias = state[f"features.{layer}.bias"][None, :, None, None]
        x = np.maximum(conv(x, state[f"features.{layer}.weight"], stride, padding) + bias, 0)
        x = max_pool(x, 3, 2) if layer in (0, 3, 10) else x
    assert x.shape[2:] == (1, 1)
    x = np.broadcast_to(x, (*x.shape[:2], 6, 6)).reshape(len(x), -1)
    for layer in (1, 4, 6):
        x = x @ state[f"classifier.{layer}.weight"].T + state[f"classifier.{layer}.bias"]
        x = np.maximum(x, 0) if layer < 6 else x
    return x
