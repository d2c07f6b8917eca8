"""The stages of `bench/gpu.py`: a module each, with ``run(report)``.

A stage uses Tarmac by its command line or its Python API, in processes of its own where an error
on a GPU could spoil what follows. What it has measured is kept at once, so a stage that is ended
leaves it.
"""
