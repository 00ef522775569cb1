"""One module a target, each with ``make(folder)``."""
