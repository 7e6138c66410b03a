"""Updates count if their form is right."""

from typing import ClassVar

from server_app.guards.base import Guard


class NoGuard(Guard):
    """Looks at no update: workers may add up what they train."""

    looks: ClassVar[bool] = False
