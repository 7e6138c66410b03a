"""How fast, how large and how robust is the product?

Each module with a `main` is a command: ``uv run python -m benchmarks.NAME``. It prints what it
measures, and its docstring says how long that takes. Those that inject faults or attacks (`chaos`,
`chaos_ray`, `hostile`, `masked_faults`, `recovery`, `resuming`, `site_faults`) also check what they
find, and exit with 1 if it is wrong.
"""
