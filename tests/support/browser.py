"""A headless Chromium for tests, spoken to over its own debugging pipe: no driver, no network.

with Browser() as browser:
    browser.open(path, 360, 740)
    browser.evaluate("document.title"); browser.complaints
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
SECONDS = 120  # for the start of the browser and for each answer
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip


# Chromium reads commands from descriptor 3 and answers on 4; a first copy is out of their way.
LAUNCH = """
import fcntl, os, sys
there, back = (fcntl.fcntl(int(text), fcntl.F_DUPFD, 10) for text in sys.argv[1:3])
os.dup2(there, 3)
os.dup2(back, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page at a time; `complaints` are its console's errors and warnings, and uncaught exceptions."""

    def __enter__(self) -> "Browser":
        self.complaints: list[str] = []
        self._rest, self._number, self._session = b"", 0, None
        self._loaded = False
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        there, self._send = os.pipe()
        self._receive, back = os.pipe()
        options = [f"--user-data-dir={self._home.name}", *OPTIONS]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(there), str(back), str(CHROMIUM), *options],
            pass_fds=(there, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        try:
            self._attach()
        except BaseException:
            self._end()
            raise
        return self

    def _attach(self) -> None:
        pages = [t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = {"targetId": pages[0]["targetId"], "flatten": True}
        self._session = self._call("Target.attachToTarget", **target)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        os.close(self._send)
        os.close(self._receive)
        self._home.cleanup()

    def open(self, path: Path, width: int, height: int, dark: bool = False, link: str = "") -> None:
        """Load a file in a window of this size; link: what stands behind its name, with #."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self._call("Page.navigate", url="about:blank")  # to the same file with another # nothing would load
        while not self._loaded:
            self._see(self._message())
        self._loaded = False
        self._call("Page.navigate", url=path.absolute().as_uri() + link)
        while not self._loaded:
            self._see(self._message())

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression, of a promise what it promises."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self._see(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._receive, 1 << 16) if ready else b""
            assert part, f"Chromium is silent: {'it ended' if ready else f'{SECONDS} s'}"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _see(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        self._loaded = self._loaded or method == "Page.loadEventFired"
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(parameters["entry"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))
