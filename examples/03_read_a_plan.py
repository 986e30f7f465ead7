"""Quantize a network by a plan written in code, and read the plan's consequences."""

import torch

from qcapsnets import data, models
from qcapsnets.accounting import Inventory
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.fixedpoint.quantize import formats_of, quantize


def main() -> None:
    torch.manual_seed(0)
    model = models.build("shallowcaps-small")
    plan = Plan(
        {
            "conv": Wordlengths(weight=6, activation=5),
            "primary": Wordlengths(weight=5, activation=5),
            "digit": Wordlengths(weight=4, activation=5, routing=3),
        }
    )
    images = data.load("mnist-mini").train.images[:50]
    quantized = quantize(model, plan, Calibration.record(model, images), rounding="nearest")
    for site, number_format in formats_of(quantized).items():
        print(f"{site:24} {number_format}")
    inventory = Inventory.of(model)
    reduction = inventory.weight_bits(None) / inventory.weight_bits(plan)
    print(f"weights: {inventory.weight_bits(plan):,} bits, {reduction:.2f}x less than float")


if __name__ == "__main__":
    main()
