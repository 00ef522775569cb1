"""Placeholder units."""


def add_arguments(parser): ...
def measure(options, arguments):
    raise NotImplementedError
