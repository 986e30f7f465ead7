"""Numbers and findings in words."""

from qcapsnets.framework import ModelReport, Result
from qcapsnets.framework.result import Measured

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ENERGIES = ((1e12, "J"), (1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ"))

SPACE = "\N{NO-BREAK SPACE}"
"""Between a number and its unit."""

NAMES = {
    "model_satisfied": "Both constraints met",
    "model_memory": "Within the budget",
    "model_accuracy": "At the target accuracy",
}
"""What a chosen model is to a reader."""


def name_of(model: ModelReport) -> str:
    """A heading for a chosen model."""
    return NAMES.get(model.name, model.name)


def percent(share: float, digits: int = 2) -> str:
    """A share of one: `97.30%`."""
    return f"{share * 100:.{digits}f}%"


def interval(measured: Measured) -> str:
    """The 95% interval of an accuracy."""
    return f"{percent(measured.low)} to {percent(measured.high)}"


def points(difference: float) -> str:
    """A difference of two accuracies, without its sign: `0.70 points`."""
    return f"{abs(difference) * 100:.2f} points"


def memory(bits: float) -> str:
    """Bits to four figures: `3.412 Mbit`."""
    for size, unit in _SCALES:
        if bits >= size:
            return f"{bits / size:.4g}{SPACE}{unit}bit"
    return f"{bits:.4g}{SPACE}bit"


def quantity(number: float) -> str:
    """A count to three figures: `14.6 M`."""
    for size, unit in _SCALES:
        if number >= size:
            return f"{number / size:.3g}{SPACE}{unit}"
    return f"{number:.3g}"


def energy(picojoules: float) -> str:
    """An energy with the unit that suits: `3.1 µJ`."""
    for size, unit in _ENERGIES:
        if picojoules >= size:
            return f"{picojoules / size:.3g}{SPACE}{unit}"
    return f"{picojoules:.3g}{SPACE}pJ"


def decibels(value: float | None) -> str:
    """A signal-to-noise ratio; nothing lost at all is `exact`."""
    return "exact" if value is None else f"{value:.1f}{SPACE}dB"


def duration(seconds: float) -> str:
    """`3.2 s` or `4 min 12 s`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 image`, `1,000 images`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sentence(text: str) -> str:
    """Words as a sentence: a capital at the beginning, a full stop at the end."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def satisfied(result: Result) -> ModelReport | None:
    """The chosen model that meets both constraints; on Path B, too, there can be one."""
    both = (m for m in result.chosen if m.meets_accuracy and m.meets_budget)
    return next(both, None)


def verdict(result: Result) -> str:
    """Whether both constraints are met, and by how much."""
    model = satisfied(result)
    if model is None:
        return _not_both(result)
    aside = "" if result.path == "A" else ", though not with the weights of step 2 (Path B)"
    return (
        f"Both constraints are met{aside}: {_accuracy(model, result)}, and the weights take "
        f"{memory(model.weight_bits)}, {_memory_margin(model, result)}."
    )


def _not_both(result: Result) -> str:
    small, accurate = result.chosen
    taken = memory(accurate.weight_bits)
    if accurate.meets_accuracy:
        other = f"reaching the target takes {taken}, {_share_of_budget(accurate, result)}"
    else:
        other = f"even {taken} of weights leave only {percent(accurate.search_accuracy)} right"
    return (
        f"The constraints cannot both be met: with {memory(small.weight_bits)} of weights, "
        f"{_memory_margin(small, result)}, {_accuracy(small, result)}; {other}."
    )


def _accuracy(model: ModelReport, result: Result) -> str:
    return (
        f"{percent(model.search_accuracy)} of the {result.settings['search_split']} images are "
        f"right, {_accuracy_margin(model, result)}"
    )


def reason(text: str) -> str:
    """A reason of the selection, with a model's name as a reader knows it."""
    for name, title in NAMES.items():
        text = text.replace(f"{name}:", f"{title}:")
    return sentence(text)


def _accuracy_margin(model: ModelReport, result: Result) -> str:
    difference = model.search_accuracy - result.target
    if abs(difference) < 5e-7:
        return f"exactly the target of {percent(result.target)}"
    side = "above" if difference > 0 else "below"
    return f"{points(difference)} {side} the target of {percent(result.target)}"


def _memory_margin(model: ModelReport, result: Result) -> str:
    return f"{_share_of_budget(model, result)} of {memory(result.budget_bits)}"


def _share_of_budget(model: ModelReport, result: Result) -> str:
    budget, bits = result.budget_bits, model.weight_bits
    if bits == budget:
        return "exactly the budget"
    return f"{percent(abs(bits / budget - 1), 1)} {'under' if bits < budget else 'over'} the budget"


def tested(result: Result) -> str:
    """What the test images say of the float network and the chosen models."""
    subjects = ["the float network", *(_subject(model, result) for model in result.chosen)]
    measured = [result.float_test, *(model.test for model in result.chosen)]
    first, *others = (
        f"{subject} {'gets ' if index == 0 else ''}{percent(found.accuracy)}"
        f"{' right' if index == 0 else ''} ({interval(found)})"
        for index, (subject, found) in enumerate(zip(subjects, measured, strict=True))
        if found is not None
    )
    images = counted(result.float_test.total, "test image")
    return f"On {images}{_unseen(result)}, {', '.join([first, *others])}."


def _subject(model: ModelReport, result: Result) -> str:
    if len(result.chosen) == 1:
        return "the quantized one"
    return f"the model {name_of(model)[0].lower()}{name_of(model)[1:]}"


def _unseen(result: Result) -> str:
    return "" if result.settings["search_split"] == "test" else " that the search never saw"
