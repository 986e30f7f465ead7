"""CPU seconds of `qcapsnets --help` beyond those of python itself (under 0.5 is the promise).

python benchmarks/startup.py
"""

import resource
import subprocess
import sys

ROUNDS = 5


def cpu_seconds(*arguments: str) -> float:
    """The least of several rounds: other processes only ever make it seem slower."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = min(best, used)
    return best


def main() -> None:
    bare = cpu_seconds("-c", "pass")
    program = cpu_seconds("-m", "qcapsnets", "--help")
    print(f"python {bare:.2f} s, qcapsnets --help {program:.2f} s: {program - bare:.2f} s more")


if __name__ == "__main__":
    main()
