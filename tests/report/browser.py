"""A real browser, driven over plain HTTP by ChromeDriver (the W3C WebDriver protocol)."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)
PHONE = {"width": 390, "height": 844, "pixelRatio": 2.0}
TIMEOUT = 60


def missing() -> str | None:
    """What is not installed, in words; None if a browser can be had."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not absent:
        return None
    return f"no {' and no '.join(absent)}: apt-get install -y chromium chromium-driver"


@contextmanager
def driver() -> Iterator[str]:
    """A running ChromeDriver, by its address."""
    command = [str(shutil.which("chromedriver")), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{_port(process)}"
        finally:
            process.terminate()


def _port(process: "subprocess.Popen[str]") -> int:
    for line in process.stdout or ():
        found = re.search(r"started successfully on port (\d+)", line)
        if found:
            return int(found[1])
    raise RuntimeError("ChromeDriver ended before it listened")


def _call(method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    data = None if method == "GET" else json.dumps(body or {}).encode()
    request = urllib.request.Request(address, data, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return json.load(answer)["value"]


@contextmanager
def browser(
    address: str, profile: Path, *, phone: bool = False, dark: bool = False
) -> Iterator["Browser"]:
    """A new browser with a profile of its own, as wide as a desktop's or a phone's."""
    flags = [*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"]
    flags += ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    options: dict[str, Any] = {"args": flags, "binary": shutil.which("chromium")}
    if phone:
        options["mobileEmulation"] = {"deviceMetrics": PHONE | {"touch": True}}
    always = {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    capabilities = {"capabilities": {"alwaysMatch": always}}
    session = _call("POST", f"{address}/session", capabilities)["sessionId"]
    page = Browser(f"{address}/session/{session}")
    try:
        yield page
    finally:
        _call("DELETE", page.session)


class Browser:
    """One tab."""

    def __init__(self, session: str) -> None:
        self.session = session

    def post(self, path: str, **body: Any) -> Any:
        """Ask for something."""
        return _call("POST", f"{self.session}/{path}", body)

    def open(self, path: Path) -> None:
        """A file from disk, until its charts are drawn."""
        self.post("url", url=path.resolve().as_uri())
        self.wait("document.documentElement.classList.contains('ready')")

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of a script's `return`."""
        return self.post("execute/sync", script=script, args=list(arguments))

    def wait(self, condition: str) -> None:
        """Until an expression is true; ten seconds at most."""
        script = f"""
            const done = arguments[0], end = Date.now() + 10000;
            (function look() {{
              if ({condition}) done(true);
              else if (Date.now() > end) done(false);
              else setTimeout(look, 20);
            }})();"""
        if not self.post("execute/async", script=script, args=[]):
            raise AssertionError(f"not within ten seconds: {condition}")

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window, by way of another."""
        moves = [
            {"type": "pointerMove", "duration": 30, "x": round(px), "y": round(py)}
            for px, py in ((x - 30, y - 30), (x, y))
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self.post("actions", actions=[mouse | {"actions": moves}])

    def tap(self, x: float, y: float) -> None:
        """Touch a place in the window, for a moment."""
        finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}}
        touch = [
            {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pause", "duration": 60},
            {"type": "pointerUp", "button": 0},
        ]
        self.post("actions", actions=[finger | {"actions": touch}])

    def console(self) -> list[dict[str, Any]]:
        """What the page has complained of since the last call."""
        return [line for line in self._log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """What the page itself has asked for since the last call, without what is in it."""
        page = self.run("return location.href")
        messages = (json.loads(line["message"])["message"] for line in self._log("performance"))
        sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
        asked = [s["request"]["url"] for s in sent if s["documentURL"] == page]
        return [url for url in asked if url != page and not url.startswith(("data:", "blob:"))]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.post("se/log", type=kind)
        return found

    def tool(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.post("goog/cdp/execute", cmd=command, params=parameters)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What is seen, or the whole page."""
        picture = self.tool("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it prints."""
        printed = self.tool("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))
