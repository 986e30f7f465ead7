"""Static memory and packed words: nothing overlaps, nothing is lost."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qcapsnets.export.c.arena import ALIGNMENT, Buffer, place
from qcapsnets.export.c.weights import packed_array
from qcapsnets.fixedpoint.format import FixedPoint


@st.composite
def buffers(draw: st.DrawFn) -> list[Buffer]:
    result = []
    for index in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 8))
        kind = draw(st.sampled_from(["int8_t", "uint8_t", "int16_t", "int32_t", "int64_t"]))
        count = draw(st.integers(0, 500))
        last = first + draw(st.integers(-1, 5))
        result.append(Buffer(f"b{index}", kind, count, "", first=first, last=last))
    return result


@given(buffers())
def test_arrays_that_live_together_do_not_overlap(given_buffers: list[Buffer]) -> None:
    arenas = {arena.width: arena.count for arena in place(given_buffers)}
    used = [b for b in given_buffers if b.used]
    for i, a in enumerate(used):
        assert a.offset + a.count <= arenas[a.width]
        assert a.offset * a.width // 8 % ALIGNMENT == 0
        for b in used[i + 1 :]:
            if a.width == b.width and a.first <= b.last and b.first <= a.last:
                assert a.offset + a.count <= b.offset or b.offset + b.count <= a.offset


def test_memory_is_reused() -> None:
    steps = [Buffer(f"b{i}", "int8_t", 640, "", first=i, last=i + 1) for i in range(10)]
    (arena,) = place(steps)
    assert arena.count == 2 * 640


@given(st.integers(2, 16), st.sampled_from([4, 8, 16]), st.integers(1, 3), st.integers(0, 99))
def test_lanes_are_what_the_comment_in_c_says(n: int, lanes: int, groups: int, seed: int) -> None:
    """Word w of lane l is word w*L + l of a group; code c of lane l is code c*L + l."""
    half = 1 << (n - 1)
    codes = np.random.default_rng(seed).integers(-half, half, 16 * lanes * groups)
    array = packed_array("w", FixedPoint(n, 0), codes, "", tiles=(16 * lanes,))
    assert array.lanes == lanes
    assert len(array.words) == n * lanes * groups
    words = array.words.astype(object).reshape(groups, n, lanes)
    for g in range(groups):
        for lane in range(lanes):
            stream = sum(int(w) << 16 * i for i, w in enumerate(words[g, :, lane]))
            for c in range(16):
                code = stream >> c * n & ((1 << n) - 1)
                code = code - (1 << n) if code & half else code
                assert code == codes[(g * 16 + c) * lanes + lane]


def test_a_stream_wastes_less_than_four_words() -> None:
    for count in (1, 7, 81, 1000):
        array = packed_array("w", FixedPoint(5, 0), np.ones(count, dtype=np.int64), "")
        assert array.lanes == 0
        assert len(array.words) * 16 <= count * 5 + 3 * 16
