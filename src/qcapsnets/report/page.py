"""Pages: a template filled in, with everything that it shows inside it.

plotly's script comes compressed in the page and is unpacked by the browser, which makes the page
a third of the size. A policy in the page forbids the browser every request.
"""

import base64
import gzip
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any

from qcapsnets import __version__
from qcapsnets.report import words
from qcapsnets.report.charts import Spec
from qcapsnets.report.palette import BLUE

if TYPE_CHECKING:
    from jinja2 import Environment
    from torch import Tensor

FILTERS = {
    "counted": words.counted,
    "duration": words.duration,
    "energy": words.energy,
    "memory": words.memory,
    "percent": words.percent,
    "quantity": words.quantity,
    "sentence": words.sentence,
    "themed": lambda colour: f"var(--blue, {colour})" if colour == BLUE else colour,
}


def render(
    template: str, *, title: str, contents: dict[str, str], specs: dict[str, Spec], **values: Any
) -> str:
    """A whole page; `contents` are its sections by id, `specs` its charts by name."""
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            contents=contents.items(),
            specs=specs,
            bundle=plotly_bundle(),
            version=__version__,
            **values,
        )
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("qcapsnets.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


@cache
def plotly_bundle() -> str:
    """plotly.js as the installed package has it, gzip in base64."""
    script = files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode()


def svg_address(svg: bytes) -> str:
    """A picture inside a page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def image_address(image: "Tensor") -> str:
    """An image (bytes [channels, height, width], one channel or three) inside a page, as PNG."""
    from matplotlib.image import imsave

    pixels = image.cpu()[0] if image.shape[0] == 1 else image.cpu()[:3].movedim(0, -1)
    buffer = BytesIO()
    imsave(buffer, pixels.numpy(), format="png", cmap="gray", vmin=0, vmax=255)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
