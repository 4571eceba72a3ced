"""The committed reference results, made again by one command: ``python -m audit.results``."""
