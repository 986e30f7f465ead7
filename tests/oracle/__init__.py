"""The arithmetic of docs/arithmetic.md again, in plain Python integers.

Written from that page and from nothing else: no torch, no numpy, no floats, nothing of qcapsnets.
Tensors are lists (of lists ...) of codes. It is slow and is meant to be read.
"""
