"""A search from a command line. Its workers import this file too, so it imports nothing itself.

python -m tests.search.start FOLDER MODEL.safetensors '{"roundings": ["nearest"]}' WORKERS
"""

import json
import sys
from pathlib import Path


def main(folder: str, model: str, changes: str, workers: str) -> None:
    from tests.search import searching

    searching.in_a_process(Path(folder), Path(model), json.loads(changes), int(workers))


if __name__ == "__main__":
    main(*sys.argv[1:])
