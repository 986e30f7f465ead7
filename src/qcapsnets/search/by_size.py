"""The paper's steps with bits by size: the layer that has most numbers gets the fewest of them.

Every bit more makes the rounding noise of a number four times smaller. For the least memory at some
noise, one more bit has to gain as much per bit stored in every layer, and its price is the number
of numbers in the layer. So a layer with four times the numbers of another gets one bit less, where
the paper takes one off from each layer to the next, whatever its size. What is more or less
sensitive than its size tells is found afterwards, layer by layer, the largest first.
"""

from collections.abc import Mapping

from qcapsnets.fixedpoint.plan import SHORTEST, Plan
from qcapsnets.search.paper import Q_A, Q_W, Rule, Walk, Wordlength
from qcapsnets.search.problem import Problem


def ladder(sizes: Mapping[str, int], longest: Mapping[str, int]) -> list[dict[str, int]]:
    """Wordlengths by size, from the shortest everywhere to the longest; each rung adds one bit.

    A bit more than q gains in proportion to 4^-q and costs as many bits as there are numbers: the
    next one goes where 4^q times the size is least, of equals to the first.
    """
    rises = sorted(
        (sizes[name] << 2 * q, index, name)
        for index, name in enumerate(sizes)
        for q in range(SHORTEST, longest[name])
    )
    rungs = [dict.fromkeys(sizes, SHORTEST)]
    for _, _, name in rises:
        rungs.append(rungs[-1] | {name: rungs[-1][name] + 1})
    return rungs


class BySize(Rule):
    """Bits by size; then each layer by itself, the largest first."""

    def fitting(self, problem: Problem, longest: int) -> dict[str, int]:
        rungs = ladder(problem.sizes, dict.fromkeys(problem.layers, longest))
        return problem.first_fitting(reversed(rungs))

    def activations(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        return _down(walk, plan, Q_A, walk.problem.output_sizes, minimum)

    def weights(self, walk: Walk, plan: Plan, minimum: int) -> Plan:
        return _down(walk, plan, Q_W, walk.problem.sizes, minimum)


def _down(walk: Walk, plan: Plan, what: Wordlength, sizes: Mapping[str, int], minimum: int) -> Plan:
    """Down the ladder while enough are right, then each layer by itself."""
    rungs = ladder(sizes, {name: what.of(plan[name]) for name in sizes})

    def at(rung: int) -> Plan:
        return what.change(walk.problem, plan, rungs[rung - SHORTEST])

    shorter = at(walk.answers.shortest(at, SHORTEST + len(rungs) - 1, minimum))
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        fixed = shorter

        def alone(q: int, name: str = name, fixed: Plan = fixed) -> Plan:
            return what.change(walk.problem, fixed, {name: q})

        shorter = alone(walk.answers.shortest(alone, what.of(fixed[name]), minimum))
    return shorter
