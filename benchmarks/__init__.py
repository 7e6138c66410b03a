"""How fast, how large and how robust is the product?

Each module with a `main` is a command: ``uv run python -m benchmarks.NAME``. It prints what it
measures, and its docstring says how long that takes. Only `chaos`, `chaos_ray` and `resuming` check
what they find, and exit with 1 if it is wrong.
"""
