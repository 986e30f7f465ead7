"""The bundled subsets can be drawn again, to the byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qcapsnets.data.builtin import BUNDLED
from qcapsnets.data.formats import read_idx_images, read_idx_labels

TOOL = Path(__file__).parents[2] / "tools" / "draw_subsets.py"


@pytest.mark.skipif(not os.environ.get("QCAPSNETS_DATA"), reason="needs QCAPSNETS_DATA")
def test_draws_what_is_bundled(tmp_path: Path) -> None:
    subprocess.run([sys.executable, TOOL, "--output", tmp_path], check=True)
    drawn = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.gz"))
    assert drawn == sorted(path.relative_to(BUNDLED) for path in BUNDLED.rglob("*.gz"))
    for path in drawn:
        # Contents, since another zlib may compress them to other bytes.
        if "images" in path.name:
            assert read_idx_images(tmp_path / path).equal(read_idx_images(BUNDLED / path))
        else:
            assert read_idx_labels(tmp_path / path, 10).equal(read_idx_labels(BUNDLED / path, 10))
