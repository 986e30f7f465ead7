"""The table of docs/results.md, from trained networks to the page: `python -m tools.results`."""
