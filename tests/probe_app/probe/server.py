"""A server that tries every behaviour that our federation relies on, and records the results."""

import json
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


def order(node_id: int, kind: str = "query", *, fail: bool = False, sleep: float = 0.0) -> Message:
    record = ConfigRecord({"fail": fail, "sleep": sleep, "altered": False})
    return Message(RecordDict({"order": record}), dst_node_id=node_id, message_type=kind)


def ask(grid: Grid, *messages: Message, timeout: float | None = None) -> list[Message]:
    return list(grid.send_and_receive(list(messages), timeout=timeout))


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Observe, and write the observations as JSON to the file named in the run-config."""
    while len(list(grid.get_node_ids())) < 2:
        time.sleep(0.1)
    seen = observations(grid)
    Path(str(context.run_config["result"])).write_text(json.dumps(seen, indent=1))


def observations(grid: Grid) -> dict[str, Any]:
    first, second = sorted(grid.get_node_ids())
    found: dict[str, Any] = {"ids are ints": all(isinstance(n, int) for n in grid.get_node_ids())}

    replies = ask(grid, order(first), order(second))
    answers = [reply.content.config_records["answer"] for reply in replies]
    found["every node answers"] = sorted(cast(int, answer["seat"]) for answer in answers)
    sent = order(first)
    (reply,) = ask(grid, sent)
    found["a reply names its message"] = (
        reply.metadata.reply_to_message_id == sent.metadata.message_id != ""
    )
    found["a reply comes from the node"] = reply.metadata.src_node_id == first
    found["a reply is of the same type"] = reply.metadata.message_type
    found["state lasts"] = reply.content.config_records["answer"]["seen"]
    found["the sent message is not altered"] = sent.content.config_records["order"]["altered"]

    (reply,) = ask(grid, order(first, fail=True))
    found["an exception is an error"] = [reply.has_error(), reply.has_content(), reply.error.code]
    found["its reason holds the text"] = "boom" in str(reply.error.reason)
    (reply,) = ask(grid, order(first))
    found["a failed call's state is lost"] = reply.content.config_records["answer"]["seen"]
    (reply,) = ask(grid, order(first, "query.unknown"))
    found["an unknown action is an error"] = [reply.has_error(), reply.error.code]

    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    for kind in ("train", "evaluate"):
        content = RecordDict({"arrays": ArrayRecord({"w": Array(weights)})})
        (reply,) = ask(grid, Message(content, dst_node_id=first, message_type=kind))
        array = reply.content.array_records["arrays"]["w"].numpy()
        found[f"{kind} carries arrays"] = [array.tolist(), str(array.dtype)]

    found["an unknown node takes nothing"] = list(grid.push_messages([order(12345)]))
    late = order(first, sleep=1.5)
    found["nothing comes before its time"] = len(ask(grid, late, timeout=0.3))
    found["a late reply can still be pulled"] = pulled(grid, late)
    (gone,) = grid.pull_messages([late.metadata.message_id])
    found["but once, then an error says it is gone"] = [gone.has_error(), gone.error.code]
    return found


def pulled(grid: Grid, message: Message) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if replies := list(grid.pull_messages([message.metadata.message_id])):
            return "answer" in replies[0].content
        time.sleep(0.1)
    return False
