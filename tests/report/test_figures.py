"""Figures on paper."""

import pytest
from tests import networks

from qcapsnets.data import Splits
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.report.charts import noise_chart, rates_chart
from qcapsnets.report.figures import ROWS_OF_A_PAGE, noise_figures
from qcapsnets.report.noise import SiteNoise, noise_of


@pytest.fixture(scope="module")
def sites(small_digits: Splits) -> list[SiteNoise]:
    """Of a network with more sites than fit a page."""
    model, images = networks.tiny_deep().eval(), small_digits.validation.images[:10]
    quantized = quantize(model, Plan.uniform(model, 4), Calibration.record(model, images))
    return noise_of(model, quantized, images)


def test_many_sites_take_several_pages(sites: list[SiteNoise]) -> None:
    assert len(sites) > ROWS_OF_A_PAGE
    pictures = noise_figures("noise", sites)
    assert [picture.name for picture in pictures] == ["noise-1", "noise-2", "noise-3"]
    text = b"".join(picture.svg for picture in pictures).decode()
    assert all(f">{site.name}<" in text for site in sites)


def test_many_sites_have_their_axis_above(sites: list[SiteNoise]) -> None:
    for spec in (noise_chart(sites), rates_chart(sites, zeros=True)):
        assert spec["layout"]["xaxis"]["side"] == "top"
    assert noise_chart(sites[:9])["layout"]["xaxis"]["side"] == "bottom"
