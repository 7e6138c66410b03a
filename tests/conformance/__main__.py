"""Print the table of docs/results/conformance.md: ``uv run python -m tests.conformance``."""

from tests.conformance.cases import comparisons

if __name__ == "__main__":
    print("| Method | Reference from | Quantity | Largest relative difference |")
    print("|---|---|---|---|")
    for found in comparisons():
        cells = (found.method, found.follows, found.quantity, f"{found.difference:.0e}")
        print(f"| {' | '.join(cells)} |")
