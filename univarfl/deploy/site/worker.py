"""The resident worker of a site: takes the SuperNode's tasks and has a child answer each.

It holds the connection, the heartbeat and the reply, and never reads a message's content. The
coordinator's bundle, which the SuperNode hands out with a task, is not used.
"""

import argparse
import json
import logging
import signal
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client_app.logs import write_site_log
from task.fingerprint import fingerprint
from task.site import Site, site_name
from univarfl.deploy.site import frames
from univarfl.deploy.site.forks import Child, ChildLostError, ForkServer, ForkServerFailedError
from univarfl.deploy.site.internals import PackedReply, error_reply, read_head
from univarfl.deploy.site.limits import GRACE_SECONDS, READ_SECONDS, UNREAD
from univarfl.deploy.site.tasks import (
    RuntimeApi,
    SecretRefusedError,
    TaskApi,
    TaskGoneError,
    TaskInput,
)

POLL_SECONDS = 0.2  # each look costs both sides 6 ms
END_SECONDS = 2.0  # for a child that has sent its reply
MAX_RUNS = 4  # whose masked rounds may be open at a time

logger = logging.getLogger("univarfl.client")


class TaskWorker:
    """Answers a SuperNode's tasks, one after another.

    Args:
        api: the SuperNode's local API.
        server: forks a child for each task.
        settings: the node's, from the site's own file. A task with others is not answered: it
            comes from another program that has taken the SuperNode's port.
    """

    def __init__(self, api: RuntimeApi, server: ForkServer, settings: Mapping[str, Any]) -> None:
        self._api, self._server, self._settings = api, server, settings
        self._most_seconds = Site.from_node_config(settings).max_seconds
        self._noted = (0, "")  # the run and the bundle that were logged
        self._secrets: dict[int, bytes] = {}  # by run, in memory only; the last ones of a stage

    def work(self) -> None:
        """Answer tasks for ever.

        Raises:
            ForkServerFailedError: the fork server has ended too often.
            SecretRefusedError: the SuperNode was given another secret.
        """
        while True:
            self._server.watch()
            task = self._api.acquire()
            if task is None:
                time.sleep(POLL_SECONDS)
                continue
            try:
                self.answer(task)
            except TaskGoneError as error:
                logger.warning("a message is not answered: %s", error)
            finally:
                task.close()

    def answer(self, task: TaskApi) -> None:
        """Answer one task, with an error if its child is lost.

        Raises:
            ForkServerFailedError: the fork server has ended too often.
            TaskGoneError: the SuperNode does not wait for the task any more.
        """
        task.heartbeat()
        task_input = task.pull_input()
        if changed := differing(task_input.node_config, self._settings):
            raise TaskGoneError(f"it comes with other settings than this site's: {changed}")
        self._note_bundle(task_input)
        reply, failure, wish = PackedReply(b""), "", b""
        try:
            child = self._server.fork(task.heartbeat)
            child.wait = task.heartbeat
            try:
                reply, failure, wish = self._ask(child, task, task_input)
                child.end(patience=END_SECONDS)
            finally:
                child.end()
        except ChildLostError as error:
            logger.error("the process that worked on a message was lost: %s", error)
            name = site_name(task_input.node_config)
            failure = f"site {name} could not answer a message: {error}"
            self._server.unload()  # so that it cannot be the reason again
        if failure:
            reply = error_reply(read_head(task_input.message), failure)
        task.push(reply, failure)
        self._server.load(wish)

    def _ask(
        self, child: Child, task: TaskApi, task_input: TaskInput
    ) -> tuple[PackedReply, str, bytes]:
        """Have a child answer a task.

        Returns:
            The reply; why there is none, or nothing; and what may be loaded for later children.

        Raises:
            ChildLostError: the child has ended, or exceeded a limit.
            TaskGoneError: the SuperNode does not wait for the task any more.
        """
        child.send(frames.pack(frames.INPUT, task_input.input))
        child.send(frames.pack(frames.OBJECT_ID, task_input.object_id.encode()))
        for object_id, content in task.pull_objects():
            child.limits.allow(READ_SECONDS, UNREAD)
            child.send(frames.pack_object(object_id, content))
        # A child that is lost takes them with it: nothing is masked twice.
        secrets = self._secrets.pop(task_input.run_id, b"")
        child.send(frames.pack(frames.SECRETS, secrets))
        child.send(frames.pack(frames.GO))
        child.limits.allow(READ_SECONDS, UNREAD)
        reply = PackedReply(b"")
        while (frame := child.receive()).kind != frames.DONE:
            if frame.kind == frames.FACTS:
                self._note_facts(child, frame.data, task_input)
            elif frame.kind == frames.SECRETS:
                self._keep_secrets(task_input.run_id, frame.data)
            elif frame.kind == frames.OBJECT:
                object_id, content = frames.unpack_object(frame.data)
                reply.objects[object_id] = content
            elif frame.kind == frames.REPLY:
                reply.request = frame.data
            else:
                return reply, frame.data.decode(errors="replace"), b""
        return reply, "", frame.data

    def _keep_secrets(self, run_id: int, secrets: bytes) -> None:
        """Keep what the next process of a run needs, for few runs at a time."""
        if secrets:
            self._secrets[run_id] = secrets
        while len(self._secrets) > MAX_RUNS:
            del self._secrets[next(iter(self._secrets))]

    def _note_facts(self, child: Child, data: bytes, task_input: TaskInput) -> None:
        """Use what a child says of its request: the time for it, and whether the code differs."""
        facts = json.loads(data)
        seconds = float(facts["seconds"])
        if seconds and seconds + GRACE_SECONDS < self._most_seconds:
            child.limits.allow(seconds + GRACE_SECONDS, "it took longer than the coordinator waits")
        else:
            child.limits.allow(
                self._most_seconds, "it took longer than this site allows (its max-seconds)"
            )
        if facts["other_code"]:
            logger.error(
                "run %s is refused: the coordinator runs other code (%s) than this site (%s); its "
                "bundle (SHA-256 %s) was not used", facts["run"], facts["other_code"][:12],
                fingerprint()[:12], task_input.bundle,
            )  # fmt: skip

    def _note_bundle(self, task_input: TaskInput) -> None:
        """Log the hash of a run's bundle, once."""
        key = (task_input.run_id, task_input.bundle)
        if key != self._noted:
            logger.info(
                "run %d: answered by this site's own code; the coordinator's bundle (SHA-256 %s) "
                "is not used", *key,
            )  # fmt: skip
        self._noted = key


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the names of the settings in which two nodes differ, as text."""
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return ", ".join(names)


def main() -> None:
    """Run the worker until it is ended."""
    parser = argparse.ArgumentParser(description="Answer a SuperNode's tasks with this site's code")
    parser.add_argument("--supernode", required=True, help="its local API, HOST:PORT")
    parser.add_argument("--secret-file", required=True, type=Path)
    parser.add_argument("--node-config", required=True, type=Path)
    words = parser.parse_args()
    settings = tomllib.loads(words.node_config.read_text(encoding="utf-8"))
    write_site_log()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = ForkServer()
    try:
        api = RuntimeApi(words.supernode, words.secret_file.read_bytes())
        TaskWorker(api, server, settings).work()
    except (ForkServerFailedError, SecretRefusedError) as error:
        logger.error("%s", error)
        sys.exit(1)
    finally:
        server.stop()
