"""What stands under the headings of the report."""

from dataclasses import dataclass

from qcapsnets.framework import Result
from qcapsnets.report.plans import Plans
from qcapsnets.report.words import counted, memory, name_of, percent, reason, satisfied

STEPS = (
    "Every rounding scheme is searched on its own. Step 1 finds one wordlength for everything, "
    "step 2 fits the weights into the budget{}. If the target still holds, step 3A shortens the "
    "activations{} and step 4A the routing arrays; if not, step 3B finds the least weight memory "
    "that reaches the target."
)
RULES = {
    "paper": (", one bit less from layer to layer", ", but for the first layer's,"),
    "by-size": (", a bit less for four times the weights", ", of the largest layers most,"),
}


@dataclass(frozen=True)
class Notes:
    """One for each section that needs an introduction."""

    chosen: str
    plans: str
    search: str
    passed_over: str
    noise: str


def notes_of(plans: Plans, result: Result, noise_images: int) -> Notes:
    """Written from what was found."""
    images = counted(noise_images, f"{result.settings['search_split']} image")
    return Notes(
        chosen=" ".join(map(reason, _reasons(result))),
        plans=_plans_note(plans),
        search=_search_note(result.settings["strategy"]),
        passed_over=_passed_over(result),
        noise=(
            f"What each site stores, quantized against float, on {images}. At 20 dB the error is "
            "a tenth of the signal, at 0 dB as large as the signal."
        ),
    )


def _search_note(strategy: str) -> str:
    return STEPS.format(*RULES[strategy]) if strategy in RULES else ""


def _reasons(result: Result) -> tuple[str, ...]:
    """Why these models; that Path A was not reached goes without saying where both are met."""
    by_other_means = result.path == "B" and satisfied(result) is not None
    return result.reasons[1:] if by_other_means else result.reasons


def _plans_note(plans: Plans) -> str:
    total, whole = len(plans.points), sum(point.complete for point in plans.points)
    text = f"{counted(total, 'plan')} were evaluated, {whole:,} of them on every image."
    if whole < total:
        text += (
            " For the others counting stopped as soon as the answer was certain, so their "
            "accuracy is only known to be at most (or at least) what is shown."
        )
    if plans.below:
        text += f" {counted(plans.below, 'plan')} below the first view: choose all to see them."
    return text


def _passed_over(result: Result) -> str:
    """A model that meets both constraints with less memory than that of Path A, if there is."""
    if result.path == "B":
        return ""
    others = [
        model
        for scheme in result.schemes
        for model in scheme.models
        if model.meets_accuracy and model.meets_budget
    ]
    smallest = min(others, key=lambda model: model.weight_bits, default=None)
    if smallest is None or smallest.weight_bits >= min(m.weight_bits for m in result.chosen):
        return ""
    return (
        f"The paper's rule passes over a smaller model: {smallest.rounding} "
        f"({name_of(smallest)[0].lower()}{name_of(smallest)[1:]}) meets both constraints with "
        f"{memory(smallest.weight_bits)} of weights, {percent(smallest.search_accuracy)} right. It "
        "came by Path B, and models of Path B are dropped once a scheme ends in Path A."
    )
