"""Plans as points, and the front of the best."""

from hypothesis import given
from hypothesis import strategies as st
from tests.report.conftest import Ran

from qcapsnets.fixedpoint.plan import Plan, Wordlengths
from qcapsnets.report.finished import Finished
from qcapsnets.report.plans import Plans, Point


def point(bits: int, right: int, *, complete: bool = True, total: int = 100) -> Point:
    plan = Plan({"conv": Wordlengths(2, 2)})
    return Point("nearest", "1", plan, bits, right / total, complete, False, total, total)


points = st.lists(st.builds(point, st.integers(1, 9), st.integers(0, 9), complete=st.booleans()))


@given(points)
def test_the_front_is_what_nothing_beats(found: list[Point]) -> None:
    front = Plans(tuple(found), 0.9, 0.95, 100).front
    counted = [p for p in found if p.complete]
    for p in counted:
        beaten = any(
            o.weight_bits <= p.weight_bits
            and o.accuracy >= p.accuracy
            and (o.weight_bits, o.accuracy) != (p.weight_bits, p.accuracy)
            for o in counted
        )
        on_front = any((f.weight_bits, f.accuracy) == (p.weight_bits, p.accuracy) for f in front)
        assert on_front != beaten


def test_points_stand_at_their_bounds(path_a: Ran) -> None:
    finished = Finished.read(path_a.folder)
    plans = Plans.of(finished, path_a.model)
    for found, placed in zip(finished.evaluated, plans.points, strict=True):
        assert placed.complete == found.complete
        if found.complete:
            assert placed.accuracy == found.low
        else:
            assert placed.accuracy == (found.low if placed.passed else found.high)
            assert placed.passed == (found.low >= plans.target)
    (chosen,) = path_a.result.chosen
    (marked,) = [placed for placed in plans.points if placed.chosen]
    assert (marked.weight_bits, marked.accuracy) == (chosen.weight_bits, chosen.search_accuracy)


def test_the_near_view_holds_target_and_float() -> None:
    plans = Plans((point(1, 20), point(2, 99)), 0.96, 0.97, 100)
    low, high = plans.near
    assert low < plans.target < plans.float_accuracy < high <= 1
    assert plans.below == 1
