"""A signal that stops a training between two steps. Of what loads at once: a rank listens from its start."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """While entered: the first SIGINT or SIGTERM asks to stop after the step, the second stops at once.

    Signals reach the main thread alone: elsewhere they are left as they are.
    """

    def __init__(self, *signals: int) -> None:
        self.signal, self.signals = 0, signals
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.signal != 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        # os.write: a handler may interrupt a print to the same stream
        os.write(2, b"\nstopping after this step (once more: at once)\n")
