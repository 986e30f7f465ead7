"""The paper's algorithm, one function per step, in the paper's order (paper.md section 5).

1   layer-uniform wordlengths for weights and activations
2   memory: weights that fit the budget; tested -> 3A or 3B
3A  layer-wise shorter activations;  4A  shorter routing arrays       -> model_satisfied
3B  uniformly, then layer-wise, shorter weights                       -> model_accuracy

Which layers give up bits first is a `Rule`: that of the paper is `Falling`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from qcapsnets.fixedpoint.plan import LONGEST, Plan, Wordlengths
from qcapsnets.search.answers import Answers
from qcapsnets.search.cost import Cost
from qcapsnets.search.problem import Problem
from qcapsnets.search.result import Outcome, Step


@dataclass
class Walk:
    """The walk through the steps: what they need, and what they leave behind."""

    problem: Problem
    answers: Answers
    steps: list[Step]

    def record(self, name: str, plan: Plan, decision: Callable[[int], str]) -> int:
        """Close a step with the plan that it settled on; how many images are right with it."""
        self.answers.step = name
        right = self.answers.accuracy(plan)
        spent = sum((step.cost for step in self.steps), Cost())
        self.steps.append(
            Step(
                name=name,
                plan=plan,
                right=right,
                total=self.problem.total,
                weight_bits=self.problem.weight_bits(plan),
                decision=decision(right),
                cost=self.answers.cost - spent,
            )
        )
        self.answers.best = f"{right / self.problem.total:.2%} with {plan}"
        return right

    def share(self, right: int) -> str:
        """A count of images as a percentage."""
        return f"{right / self.problem.total:.2%}"

    @property
    def target(self) -> str:
        """The target accuracy as a percentage."""
        return f"{float(self.problem.target):.2%}"


@dataclass(frozen=True)
class Wordlength:
    """Which of a layer's wordlengths LayerWise shortens: how to read it and how to change it."""

    of: Callable[[Wordlengths], int]
    change: Callable[[Problem, Plan, Mapping[str, int]], Plan]


Q_W = Wordlength(lambda q: q.weight, Problem.with_weights)
Q_A = Wordlength(lambda q: q.activation, Problem.with_activations)


class Rule(ABC):
    """How bits are handed out among the layers."""

    @abstractmethod
    def fitting(self, problem: Problem, longest: int) -> dict[str, int]:
        """Step 2: the longest weights that fit the budget, `longest` at most."""

    @abstractmethod
    def activations(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        """Step 3A: shorter activations, while at least `minimum` images are right."""

    @abstractmethod
    def weights(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        """Step 3B: shorter weights, while at least `minimum` images are right."""


class Falling(Rule):
    """One bit less from layer to layer; then all layers from one on together."""

    def fitting(self, problem: Problem, longest: int) -> dict[str, int]:
        return problem.largest_falling(longest)

    def activations(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        return _layer_wise(walk, plan, Q_A, minimum)

    def weights(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        problem, longest = walk.problem, plan[walk.problem.layers[0]].weight

        def uniform(q: int) -> Plan:
            return problem.with_weights(plan, dict.fromkeys(problem.layers, q))

        q = walk.answers.shortest_of_all(uniform, longest, minimum)
        return _layer_wise(walk, uniform(q), Q_W, minimum)


FALLING = Falling()


def search(problem: Problem, answers: Answers, *, rule: Rule = FALLING) -> Outcome:
    """Steps 1 to 4A, or 1 to 3B."""
    walk = Walk(problem, answers, [])
    uniform = layer_uniform(walk)
    memory, right = fulfil_memory(walk, uniform, rule)
    if Fraction(right, problem.total) > problem.target:
        shorter = shorter_activations(walk, memory, right, rule)
        satisfied = routing_arrays(walk, shorter)
        return Outcome("A", {"model_satisfied": satisfied}, tuple(walk.steps))
    accurate = accurate_weights(walk, uniform, rule)
    return Outcome("B", {"model_memory": memory, "model_accuracy": accurate}, tuple(walk.steps))


def layer_uniform(walk: Walk) -> int:
    """Step 1: one Q for all weights and activations, using 5 % of the tolerance."""
    problem, answers = walk.problem, walk.answers
    answers.step = "1"
    minimum = problem.count(problem.step_1_target)

    def uniform(q: int) -> Plan:
        return problem.uniform(q, q)

    plan = answers.settled(
        lambda: uniform(answers.shortest_of_all(uniform, LONGEST, minimum)), minimum
    )
    q = plan[problem.layers[0]].weight

    def decision(right: int) -> str:
        asked = f"at least {walk.share(minimum)} right ({walk.share(right)})"
        if right < minimum:
            return f"no uniform wordlength up to {q} bits, the longest, has {asked}"
        return (
            f"{q} bits is the shortest uniform wordlength that a binary search finds with {asked}"
        )

    walk.record("1", plan, decision)
    return q


def fulfil_memory(walk: Walk, uniform: int, rule: Rule = FALLING) -> tuple[Plan, int]:
    """Step 2: weights that fit the budget."""
    problem = walk.problem
    weights = rule.fitting(problem, uniform)
    plan = problem.uniform(uniform, uniform).replacing(weight=weights)
    bits = problem.weight_bits(plan)

    def decision(right: int) -> str:
        passed = Fraction(right, problem.total) > problem.target
        return (
            f"weights of {', '.join(map(str, weights.values()))} bits take {bits / 1e6:.3f} of "
            f"{problem.budget / 1e6:.3f} Mbit and leave {walk.share(right)} right, "
            f"{'over' if passed else 'not over'} the target {walk.target}: "
            f"{'3A' if passed else '3B'}"
        )

    return plan, walk.record("2", plan, decision)


def shorter_activations(walk: Walk, memory: Plan, right: int, rule: Rule = FALLING) -> Plan:
    """Step 3A: shorter activations, half of what is left of the tolerance."""
    problem = walk.problem
    reached = Fraction(right, problem.total)
    least = problem.count(problem.target + (reached - problem.target) / 2)
    walk.answers.step = "3A"
    plan = walk.answers.settled(lambda: rule.activations(walk, memory, least), least)
    activations = ", ".join(str(q.activation) for q in plan.values())
    walk.record(
        "3A",
        plan,
        lambda right: (
            f"activations of {activations} bits keep {walk.share(right)} right "
            f"(at least {walk.share(least)} asked)"
        ),
    )
    return plan


def routing_arrays(walk: Walk, shorter: Plan) -> Plan:
    """Step 4A: shorter routing arrays, layer by layer, with the rest of the tolerance."""
    problem, answers = walk.problem, walk.answers
    answers.step = "4A"
    minimum = problem.count(problem.target)
    plan = answers.settled(lambda: _routing_wise(walk, shorter, minimum), minimum)
    lengths = ", ".join(f"{layer} {plan[layer].routing}" for layer in problem.routed) or "none"
    walk.record(
        "4A",
        plan,
        lambda right: (
            f"routing bits: {lengths}; {walk.share(right)} right "
            f"(target {walk.target}): both constraints are met"
        ),
    )
    return plan


def accurate_weights(walk: Walk, uniform: int, rule: Rule = FALLING) -> Plan:
    """Step 3B: the least weight memory at the target accuracy, whatever the budget."""
    problem, answers = walk.problem, walk.answers
    answers.step = "3B"
    start, minimum = problem.uniform(uniform, uniform), problem.count(problem.target)
    plan = answers.settled(lambda: rule.weights(walk, start, minimum), minimum)
    weights = ", ".join(str(q.weight) for q in plan.values())

    def decision(right: int) -> str:
        found = "are the shortest with" if right >= minimum else "do not reach the target:"
        return (
            f"weights of {weights} bits {found} {walk.share(right)} right "
            f"(target {walk.target}); they take {problem.weight_bits(plan) / 1e6:.3f} Mbit, "
            f"the budget is {problem.budget / 1e6:.3f} Mbit"
        )

    walk.record("3B", plan, decision)
    return plan


def _layer_wise(walk: Walk, plan: Plan, what: Wordlength, minimum: int) -> Plan:
    """For start = 1..L-1: shorten all layers from start on together, while enough are right."""
    layers = walk.problem.layers
    for start in range(1, len(layers)):
        tail, fixed = layers[start:], plan

        def shortened(q: int, tail: tuple[str, ...] = tail, fixed: Plan = fixed) -> Plan:
            return what.change(walk.problem, fixed, dict.fromkeys(tail, q))

        q = walk.answers.shortest(shortened, what.of(fixed[tail[0]]), minimum)
        plan = shortened(q)
    return plan


def _routing_wise(walk: Walk, plan: Plan, minimum: int) -> Plan:
    """For each routed layer: shorten its routing arrays, while enough are right."""
    for layer in walk.problem.routed:
        fixed = plan

        def shortened(q: int, layer: str = layer, fixed: Plan = fixed) -> Plan:
            return fixed.replacing(routing={layer: q})

        plan = shortened(walk.answers.shortest(shortened, fixed[layer].activation, minimum))
    return plan
