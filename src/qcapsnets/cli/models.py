"""`qcapsnets models`: which networks there are, and what they weigh."""

from typing import Annotated

import typer

from qcapsnets.cli.options import Json, example
from qcapsnets.cli.output import Output

NAME = "models"
EXAMPLE = example("qcapsnets models")


def command(
    baselines: Annotated[
        bool, typer.Option("--baselines", help="LeNet-5 and AlexNet too, to compare with.")
    ] = False,
    json: Json = False,
) -> None:
    """Which networks there are: weights, memory in FP32, and work for one image."""
    from dataclasses import asdict

    from qcapsnets.accounting.baselines import BASELINES, Comparison, Footprint, footprint
    from qcapsnets.models import build, models

    output = Output(as_json=json)
    found = [Footprint.of(build(name)) for name in models]
    others = [footprint(name) for name in BASELINES] if baselines else []
    output.show(Comparison((*others, *found)))
    output.give([asdict(f) | {"macs_per_bit": f.macs_per_bit} for f in (*others, *found)])
