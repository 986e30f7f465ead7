"""What a search spends."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Plans and images are the same in every run; the rest is what this machine really did.

    `taken` of the images were not computed: another search had counted them.
    """

    plans: int = 0
    images: int = 0
    macs: int = 0
    seconds: float = 0.0
    taken: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.plans + other.plans,
            self.images + other.images,
            self.macs + other.macs,
            self.seconds + other.seconds,
            self.taken + other.taken,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.plans - other.plans,
            self.images - other.images,
            self.macs - other.macs,
            self.seconds - other.seconds,
            self.taken - other.taken,
        )
