"""What runs the stages of `bench/gpu.py`: nothing here needs more than the standard library.

The exception is `packaging`, which pip brings along: versions are compared before anything that
Tarmac needs is there.
"""


class CannotRunError(Exception):
    """No stage can be run here; the text says why, and what to do."""
