"""Placeholder decision."""


def add_arguments(parser): ...
def measure(options, arguments):
    raise NotImplementedError
