"""A site has the code of all messages in memory before its files can change."""

import re
import subprocess
import sys

from client_app.kinds import HANDLERS
from server_app.runs import identity

NAMED = re.compile(r'"([a-z_]\w*(?:\.\w+)+):\w+"')
WARM = """
import sys
from univarfl.deploy.site.fork_server import warm_up
warm_up()
print(*sys.modules)
"""


def test_what_any_message_needs_is_imported_before_children_are_forked() -> None:
    """But for components and what only they use, which an experiment chooses."""
    needed: set[str] = set()
    waiting = [handler.work.partition(":")[0] for handler in HANDLERS.values()]
    while waiting:
        name = waiting.pop()
        mine = name.split(".")[0] == "client_app" and identity.source_of(name)
        if mine and name not in needed:
            needed.add(name)
            waiting += identity.imported_modules(name)
    needed |= {"task.approval.approvals", "task.privacy.ledger"}
    for name in identity.modules_in("task"):  # what is named there, and imported late
        found = identity.source_of(name)
        for text in NAMED.findall(found.read_text() if found else ""):
            if text.startswith(("client_app.", "task.")) and not text.endswith(".base"):
                needed.add(text)
    done = subprocess.run(
        [sys.executable, "-c", WARM], stdout=subprocess.PIPE, text=True, check=True
    )
    assert needed - set(done.stdout.split()) == set()
