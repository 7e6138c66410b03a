"""The resident worker of a site, which ``univarfl deploy site`` starts as a process."""

import univarfl.application  # noqa: F401  (makes client_app importable)


def main() -> None:
    """Run the worker."""
    from univarfl.deploy.site.worker import main as run_worker  # noqa: PLC0415

    run_worker()


if __name__ == "__main__":
    main()
