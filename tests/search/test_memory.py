"""Memory stays flat, however many plans are evaluated."""

import gc
import random
from pathlib import Path

import pytest
from tests.evaluation.test_evaluator import random_plan
from tests.search import searching

from qcapsnets.data import Splits
from qcapsnets.evaluation import Evaluator
from qcapsnets.models import CapsNet
from qcapsnets.search.answers import Fast
from qcapsnets.search.journal import Journal

STATUS = Path("/proc/self/status")
MEGABYTES = 12
CACHE = 1 << 18


def resident() -> float:
    """Megabytes of this process in memory."""
    gc.collect()
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024


@pytest.mark.skipif(not STATUS.exists(), reason="asks Linux")
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_150_plans(net: CapsNet, digits: Splits, tmp_path: Path, rounding: str) -> None:
    """A cache of 256 KiB is full after a few plans; after that nothing may grow."""
    images = searching.some(digits.validation, 10)
    evaluator = Evaluator(net, images, searching.calibrated(), rounding=rounding, cache_bytes=CACHE)
    source = random.Random(0)
    with Journal(tmp_path / "journal", {}) as journal:
        answers = Fast(evaluator, journal, rounding=rounding)
        for _ in range(50):
            answers.accuracy(random_plan(source))
        before = resident()
        for _ in range(100):
            answers.accuracy(random_plan(source))
        assert resident() - before < MEGABYTES
    assert evaluator._cache.used <= CACHE
    assert answers.cost.plans == 150
