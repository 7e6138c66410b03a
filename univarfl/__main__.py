"""``python -m univarfl`` is the ``univarfl`` command."""

from univarfl.command import main

main()
