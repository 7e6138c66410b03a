"""Where else a run's metrics go while it runs, beside its own record."""
