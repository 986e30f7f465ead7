"""How much a measured accuracy can be trusted."""

import math
from dataclasses import dataclass

from torch import Tensor

Z95 = 1.959963984540054


def wilson(right: int, total: int, z: float = Z95) -> tuple[float, float]:
    """The 95 % confidence interval of a share [Wilson 1927]."""
    share = right / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


@dataclass(frozen=True)
class Paired:
    """Two networks on the same images: what the second lost and what it gained.

    `p_value` is the chance of a difference at least as large if neither were better (the exact
    two-sided sign test on the images that changed) [McNemar 1947].
    """

    became_wrong: int
    became_right: int

    @classmethod
    def of(cls, before: Tensor, after: Tensor) -> "Paired":
        """From which images each network got right."""
        return cls(int((before & ~after).sum()), int((~before & after).sum()))

    @property
    def p_value(self) -> float:
        changed = self.became_wrong + self.became_right
        fewer = min(self.became_wrong, self.became_right)
        tail, ways = 0, 1  # of choosing k of the changed images
        for k in range(fewer + 1):
            tail += ways
            ways = ways * (changed - k) // (k + 1)
        both: float = 2 * tail / 2**changed  # of whole numbers: 2.0**1024 is no float
        return min(1.0, both)
