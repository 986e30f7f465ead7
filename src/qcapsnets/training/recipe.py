"""A recipe: everything that decides how a network is trained, as one frozen value."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from qcapsnets.errors import TrainingError
from qcapsnets.models import DECODERS
from qcapsnets.training.losses import HARD_MARGIN, MARGIN, MarginLoss

Schedule = Literal["one-cycle", "decay", "constant"]
Margin = Literal["margin", "hard-margin", "margin-then-hard"]

DECAY, DECAY_STEPS = 0.96, 2000
WARM_UP = 0.3
START, END = 1 / 25, 1e-4
SEEDS = 1 << 32


@dataclass(frozen=True)
class Recipe:
    """How to train. The schedule `decay` is the paper's; `one-cycle` suits short budgets."""

    epochs: int = 10
    batch_size: int = 100
    learning_rate: float = 1e-3
    schedule: Schedule = "one-cycle"
    margin: Margin = "margin"
    decoder: str | None = "fully-connected"
    reconstruction: float = 0.0005
    augment: bool = True
    clip: float | None = None
    """The largest norm of a gradient; a longer one is shortened to it."""
    seed: int = 0
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "checkpoint_every"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise TrainingError(f"{name} is {value!r}: it must be a whole number from 1 up")
        if type(self.seed) is not int or not 0 <= self.seed < SEEDS:
            raise TrainingError(f"seed is {self.seed!r}: it must be a whole number, 0..2^32-1")
        if not (_finite(self.learning_rate) and self.learning_rate > 0):
            raise TrainingError(f"learning_rate is {self.learning_rate!r}: it must be over 0")
        if not (_finite(self.reconstruction) and self.reconstruction >= 0):
            raise TrainingError(f"reconstruction is {self.reconstruction!r}: it must be 0 or over")
        if self.clip is not None and not (_finite(self.clip) and self.clip > 0):
            raise TrainingError(f"clip is {self.clip!r}: it must be over 0, or left out")
        if type(self.augment) is not bool:
            raise TrainingError(f"augment is {self.augment!r}: it must be true or false")
        self._check_choice("schedule", get_args(Schedule))
        self._check_choice("margin", get_args(Margin))
        self._check_choice("decoder", (None, *DECODERS))

    def _check_choice(self, name: str, allowed: tuple[str | None, ...]) -> None:
        value = getattr(self, name)
        if value not in allowed:
            raise TrainingError(
                f"{name} is {value!r}: choose one of {', '.join(map(str, allowed))}"
            )

    def rate(self, step: int, steps: int) -> float:
        """Learning rate at `step` of `steps`: a function of the step, so there is no state."""
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "decay":
            return self.learning_rate * DECAY ** (step // DECAY_STEPS)
        return self.learning_rate * _one_cycle(step / max(1, steps - 1))

    def loss(self, step: int, steps: int) -> MarginLoss:
        """The margin in force at `step`: DeepCaps may switch to the hard one half-way."""
        hard = self.margin == "hard-margin" or (
            self.margin == "margin-then-hard" and 2 * step >= steps
        )
        return HARD_MARGIN if hard else MARGIN

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name."""
        return asdict(self)


def _finite(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(cast(float, value))


def _one_cycle(progress: float) -> float:
    """Cosine up from 1/25 over the first 30 %, then down to 1/10,000 [Smith 2018]."""
    if progress < WARM_UP:
        return _cosine(START, 1.0, progress / WARM_UP)
    return _cosine(1.0, END, (progress - WARM_UP) / (1 - WARM_UP))


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2
