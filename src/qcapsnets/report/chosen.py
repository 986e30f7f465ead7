"""A chosen model under the lens: memory, work, noise, changed images, and the charts of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from qcapsnets.accounting.memory import LayerMemory
from qcapsnets.data import ImageSet
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.framework import ModelReport, Result
from qcapsnets.models import CapsNet
from qcapsnets.report import charts, figures, words
from qcapsnets.report.changes import Answer, Change, Changes, Kind, changes_of
from qcapsnets.report.charts import Spec
from qcapsnets.report.figures import Picture
from qcapsnets.report.noise import SiteNoise, noise_of
from qcapsnets.report.page import image_address
from qcapsnets.report.sections import Account, FormatRow, Tile, formats, tiles
from qcapsnets.report.shares import shares_of
from qcapsnets.report.work import LayerWork

SHOWN = 48
"""Changed images of one kind that are shown at most."""


@dataclass(frozen=True, eq=False)
class Material:
    """What it takes to look at a model: the float network, its calibration, and images."""

    model: CapsNet
    calibration: Calibration
    result: Result
    noise_images: Tensor
    test: ImageSet
    hardest: int


@dataclass(frozen=True)
class LayerRow:
    """A layer's memory and work."""

    memory: LayerMemory
    work: LayerWork


@dataclass(frozen=True)
class Shown:
    """A changed image as the page shows it."""

    picture: str
    index: int
    label: int
    before: Answer
    after: Answer


@dataclass(frozen=True)
class Group:
    """Changed images of one kind."""

    title: str
    count: int
    shown: tuple[Shown, ...]


@dataclass(frozen=True, eq=False)
class Chosen:
    """Everything that the page says of one chosen model."""

    report: ModelReport
    account: Account
    tiles: list[Tile]
    noise: list[SiteNoise]
    found: Changes
    specs: dict[str, Spec]
    drawn: dict[str, list[Picture]]

    @classmethod
    def of(cls, report: ModelReport, material: Material, before: Account) -> "Chosen":
        """Look closely."""
        model, plan = material.model, Plan.from_json(report.plan)
        settings = material.result.settings
        quantized = quantize(
            model,
            plan,
            material.calibration,
            report.rounding,
            settings["seed"],
            points=settings["points"],
        )
        noise = noise_of(model, quantized, material.noise_images)
        account, shares = Account.of(model, plan), shares_of(model, plan)
        return cls(
            report=report,
            account=account,
            tiles=tiles(material.result, report, before, account),
            noise=noise,
            found=changes_of(model, quantized, material.test, material.hardest),
            specs={
                "wordlengths": charts.wordlengths_chart(report),
                "memory": charts.memory_chart(shares),
                "noise": charts.noise_chart(noise),
                "saturated": charts.rates_chart(noise, zeros=False),
                "zeros": charts.rates_chart(noise, zeros=True),
            },
            drawn={
                "wordlengths": [figures.wordlengths_figure(f"wordlengths-{report.name}", report)],
                "memory": [figures.memory_figure(f"memory-{report.name}", shares)],
                "noise": figures.noise_figures(f"noise-{report.name}", noise),
            },
        )

    @property
    def title(self) -> str:
        return words.name_of(self.report)

    @property
    def layers(self) -> list[LayerRow]:
        pairs = zip(self.account.memory.layers, self.account.work.layers, strict=True)
        return [LayerRow(memory, work) for memory, work in pairs]

    @property
    def formats(self) -> list[FormatRow]:
        return formats(self.report)

    @property
    def charts(self) -> dict[str, str]:
        """The names that the charts have in the page."""
        return {kind: f"{kind}-{self.report.name}" for kind in self.specs}

    @property
    def worst(self) -> str:
        """Where most is lost."""
        heard = [(site.all.decibels, site.name) for site in self.noise]
        ratios = [(ratio, name) for ratio, name in heard if ratio is not None]
        if not ratios:
            return "Nothing is lost anywhere."
        ratio, name = min(ratios)
        return f"The least is {words.decibels(ratio)}, at {name}."

    @property
    def changes_note(self) -> str:
        found = self.found
        changed = words.counted(len(found.changes), "image")
        if found.looked_at == found.total:
            return f"Of all {words.counted(found.total, 'test image')}, {changed} changed class."
        return (
            f"Of the {found.looked_at:,} of {words.counted(found.total, 'test image')} that the "
            f"float network was least sure of, {changed} changed class."
        )

    @property
    def changes(self) -> list[Group]:
        return list(_groups(self.found))


def _groups(found: Changes) -> Iterator[Group]:
    for kind in get_args(Kind):
        changes = found.of_kind(kind)
        if changes:
            title = kind if kind != "still wrong" else "wrong before and after"
            shown = tuple(_shown(change) for change in changes[:SHOWN])
            yield Group(title.capitalize(), len(changes), shown)


def _shown(change: Change) -> Shown:
    picture = image_address(change.image)
    return Shown(picture, change.index, change.label, change.before, change.after)
