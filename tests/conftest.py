"""What many tests share: one thread, real digits, small networks, packages from elsewhere."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests import networks

from qcapsnets.data import Splits, load
from qcapsnets.models import CapsNet


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in one order, whatever the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Heard by the processes that tests start, also where the tests run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def mnist_mini() -> Splits:
    """The bundled digits, 28x28: 4,000 to train, 1,000 to validate, 1,000 to test."""
    return load("mnist-mini")


@pytest.fixture(scope="session")
def small_digits() -> Splits:
    """600 + 200 + 200 of the bundled digits, at 14x14, for networks that learn in a second."""
    return networks.small_digits()


@pytest.fixture
def tiny() -> CapsNet:
    """A ShallowCaps of 36,288 weights for 14x14 digits, always with the same ones."""
    return networks.tiny()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package of one module with entry points, as pip would, for the test's time."""
    added: list[str] = []

    def make(module: str, source: str, group: str, **points: str) -> None:
        folder = tmp_path / "site" / module
        information = folder / f"{module}-1.0.dist-info"
        information.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        monkeypatch.syspath_prepend(str(folder))
        added.append(module)

    yield make
    for module in added:
        sys.modules.pop(module, None)
