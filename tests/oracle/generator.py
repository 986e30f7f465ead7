"""Draws (docs/arithmetic.md, "Draws"), one at a time."""

import zlib

WORD = 2**32


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10: four words from a counter of four words and a key of two."""
    c, k = list(counter), list(key)
    for _ in range(10):
        product0, product1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            product1 // WORD ^ c[1] ^ k[0],
            product1 % WORD,
            product0 // WORD ^ c[3] ^ k[1],
            product0 % WORD,
        ]
        k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
    return c


def draw(seed: int, site: str, step: int, element: int) -> int:
    """The draw for one element of one image's tensor at a site."""
    counter = [element // 4, step, zlib.crc32(site.encode("utf-8")), 0]
    return philox(counter, [seed % WORD, seed // WORD])[element % 4] // 2**8
