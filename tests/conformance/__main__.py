"""Print the tables of docs/results/conformance.md: ``uv run python -m tests.conformance``."""

from tests.conformance.cases import comparisons
from tests.conformance.golden import golden_values

if __name__ == "__main__":
    print("| Method | Reference from | Quantity | Largest relative difference |")
    print("|---|---|---|---|")
    for found in comparisons():
        cells = (found.method, found.follows, found.quantity, f"{found.difference:.0e}")
        print(f"| {' | '.join(cells)} |")
    print("\n| Method | Value from | Quantity | Largest difference |\n|---|---|---|---|")
    for value in golden_values():
        cells = (value.method, value.follows, value.quantity, f"{value.difference:.0e}")
        print(f"| {' | '.join(cells)} |")
