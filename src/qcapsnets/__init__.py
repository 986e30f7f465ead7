"""Fixed-point Capsule Networks: search wordlengths, pack, deploy, bit for bit."""

__version__ = "0.1.0"
