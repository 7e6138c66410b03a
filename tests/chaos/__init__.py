"""Seeded schedules of faults, and what must come of a run that suffers one."""
