"""The search of paper.md section 5, written down a second time: plain lists, no shortcuts.

Weights, activations and routing wordlengths are lists by layer; `acc(w, a, r)` is an exact share.
Where the paper searches for the smallest, everything is tried; where it descends, so does this.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Bits = list[int]
Acc = Callable[[Bits, Bits, Bits], Fraction]


@dataclass
class Found:
    path: str
    models: dict[str, tuple[Bits, Bits, Bits]]


def search(
    parameters: Sequence[int],
    routed: Sequence[int],
    budget: int,
    acc: Acc,
    acc_fp32: Fraction,
    tolerance: Fraction,
) -> Found:
    layers = len(parameters)
    acc_target = acc_fp32 * (1 - tolerance)

    # 1: one Q for all weights and activations, the smallest that is good enough; 32 if none is
    step_1 = acc_fp32 * (1 - Fraction(1, 20) * tolerance)
    q = 32
    for candidate in range(32, 1, -1):
        same = [candidate] * layers
        if acc(same, same, same) >= step_1:
            q = candidate
    activations = [q] * layers

    # 2: the largest Q_w[0], not above q, from which weights fall by one bit a layer, never under 2
    weights: Bits = []
    for first in range(2, q + 1):
        falling = []
        current = first
        for _ in range(layers):
            falling.append(current)
            if current > 2:
                current -= 1
        if sum(p * n for p, n in zip(parameters, falling, strict=True)) <= budget:
            weights = falling
    assert weights, "an infeasible budget"
    acc_mm = acc(weights, activations, activations)

    if acc_mm > acc_target:
        # 3A
        acc_min = acc_target + Fraction(1, 2) * (acc_mm - acc_target)
        for start in range(1, layers):
            while activations[start] > 2:
                shorter = activations[:start] + [n - 1 for n in activations[start:]]
                if acc(weights, shorter, shorter) < acc_min:
                    break
                activations = shorter
        # 4A
        routing = list(activations)
        for layer in routed:
            while routing[layer] > 2:
                shorter = list(routing)
                shorter[layer] -= 1
                if acc(weights, activations, shorter) < acc_target:
                    break
                routing = shorter
        return Found("A", {"model_satisfied": (weights, activations, routing)})

    # 3B
    uniform = q
    for candidate in range(q, 1, -1):
        if acc([candidate] * layers, activations, activations) >= acc_target:
            uniform = candidate
    accurate = [uniform] * layers
    for start in range(1, layers):
        while accurate[start] > 2:
            shorter = accurate[:start] + [n - 1 for n in accurate[start:]]
            if acc(shorter, activations, activations) < acc_target:
                break
            accurate = shorter
    return Found(
        "B",
        {
            "model_memory": (weights, activations, activations),
            "model_accuracy": (accurate, activations, activations),
        },
    )
