"""`python -m qcapsnets`, the same as `qcapsnets`."""

import sys

from qcapsnets.cli import main

sys.exit(main())
