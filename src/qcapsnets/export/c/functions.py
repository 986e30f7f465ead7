"""C for squash: one function for each site that needs it."""

from typing import Any

from qcapsnets.errors import ExportError
from qcapsnets.export.c.numbers import literal
from qcapsnets.export.c.program import Codes, comment, fixed, site_key, templates
from qcapsnets.fixedpoint.functions import Squash
from qcapsnets.models import Site


def squash_function(
    site: Site, s: Codes, v: Codes, *, size: int, element: str, stepped: bool = False, **values: Any
) -> str:
    """The squash of vectors of `size` numbers; `element` is the index of a draw, in C."""
    squash = Squash(s.format, v.format, size)
    if not squash.exact:
        raise ExportError(
            f"{fixed(site).name}: squash from {s.format} to {v.format} over {size} components does "
            "not fit 64-bit integers: use shorter wordlengths or fewer integer bits"
        )
    step = "(uint32_t)step" if stepped else "0"
    draws = fixed(site).way.rounding.draws
    draw = f"q_draw({site_key(fixed(site).name)}, {step}, {element})" if draws else "0"
    return templates.get_template("squash.c.j2").render(
        comment=comment,
        s=s,
        v=v,
        squash=squash,
        size=size,
        draw=draw,
        stepped=stepped,
        low=literal(v.format.min_code),
        high=literal(v.format.max_code),
        **values,
    )
