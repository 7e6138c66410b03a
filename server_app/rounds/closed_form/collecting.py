"""Asking every client for the sums of its features, and adding them up."""

from collections.abc import Sequence

import torch
from torch import Tensor

from server_app.nodes.failure import ABSENT, Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import (
    ask_clients,
    check_quorum,
    clients_with_images,
    telling_clients,
    wait_for_quorum,
)
from server_app.rounds.errors import RunFailedError
from task.errors import ProtocolError
from task.protocol.after.sums import FEATURE_SUMS, MOST_IMAGES, Form, SumsReply, check_sums
from task.registry import named

EARLIER = "server_app.rounds.closed_form.earlier:earlier_sums"
KEEP = "server_app.runs.kept_sums:keep_sum"
DELETE = "server_app.runs.kept_sums:delete_sums"
MASKED = "server_app.rounds.masked.features:masked_sums"
MOST = "task.privacy.noisy_sums:most_images"
NOBODY = (
    "no site sends sums of its features; set tell-statistics = true in site.toml of the sites that "
    "agree, or choose another method and after=none"
)


class Collection:
    """The sums of the clients that answered.

    Clients are asked in blocks, by number, so that the server holds few replies at a time. The
    sums are integers: neither blocks nor the order change a bit.

    Args:
        context: the run, in its last round or after it.
        form: of the sums.

    Attributes:
        total: the sum over all clients, [length] int64.
        images: by client in it, the number of its images.
        missing: by client, why it is not.
    """

    def __init__(self, context: RoundContext, form: Form) -> None:
        self._context, self._form = context, form
        self.total: Tensor = torch.zeros(form.length, dtype=torch.int64)
        self.images: dict[int, int] = {}
        self.missing: dict[int, str] = {}

    def collect(self, stage: str) -> None:
        """Ask every client that has images, and record the names of those without sums.

        Clients whose sums an earlier run has kept are not asked (``sums.add_to``).

        Args:
            stage: the setting that needs the sums, for messages.

        Raises:
            ConfigError: the sums of the earlier run cannot be used.
            RunFailedError: fewer clients than the quorum have answered, of those whose owners
                allow it, or they have too many images.
        """
        context = self._context
        if context.experiment.sums.keep:
            named(DELETE)(context.directory)  # of an earlier attempt
        if context.experiment.sums.add_to:
            for client, kept in named(EARLIER)(context, self._form):
                self._add(client, kept.images, kept.vector)
        wanted, allowed = (
            [client for client in clients if client not in self.images]
            for clients in (clients_with_images(context), telling_clients(context))
        )
        if self.images and not wanted:
            return
        if wanted and not allowed:
            raise RunFailedError(NOBODY)
        wait_for_quorum(context, allowed)
        sizes = context.sizes.train
        clients = [client for client in wanted if sizes[client]]
        if context.sites:
            clients = self._leave_out_largest(clients)
        if sum(self.images.values()) + sum(sizes[client] for client in clients) > MOST_IMAGES:
            raise RunFailedError(
                f"{stage}: sums are exact for at most {MOST_IMAGES:,} images together"
            )
        if context.experiment.secure.masked:
            self.total, missing = named(MASKED)(context, clients, self._form)
            self.missing |= missing
            self.images = {client: sizes[client] for client in clients if client not in missing}
        else:
            block = context.clients_per_reply(self._form.bytes)
            for start in range(0, len(clients), block):
                self._ask(clients[start : start + block])
        self.missing |= {client: ABSENT for client in wanted if not sizes[client]}
        for client, reason in sorted(self.missing.items()):
            context.note_client(client, f"no sums of features: {reason}")
        check_quorum(context, allowed, self.missing, stage, "sent sums of features")

    def _leave_out_largest(self, clients: Sequence[int]) -> list[int]:
        """Return the clients whose images are few enough to be added up.

        A site may tell any number, and must not end the run of the others by it.
        """
        sizes, kept, total = self._context.sizes.train, [], sum(self.images.values())
        for client in sorted(clients, key=lambda client: sizes[client]):
            total += sizes[client]
            if total <= MOST_IMAGES:
                kept.append(client)
            else:
                reason = f"sums are exact for at most {MOST_IMAGES:,} images together"
                self.missing[client] = f"{sizes[client]:,} images are too many: {reason}"
        return sorted(kept)

    def _ask(self, clients: Sequence[int]) -> None:
        context = self._context
        fields = {**self._form._asdict(), "weights": context.model.packed_weights}
        sizes, what = context.sizes.train, "sums of features"
        replies = ask_clients(context, FEATURE_SUMS, clients, sizes, lambda _: fields, what)
        for client in clients:
            try:
                vector = self._read(client, replies[client])
            except ProtocolError as error:
                self.missing[client] = str(error)
            else:
                self._add(client, sizes[client], vector)

    def _add(self, client: int, images: int, vector: Tensor) -> None:
        """Add the sums of a client with so many images, and keep them if the run is to."""
        context = self._context
        self.total += vector
        self.images[client] = images
        if context.experiment.sums.keep:
            name = context.experiment.client_names[client]
            named(KEEP)(context.directory, name, images, vector)

    def _read(self, client: int, reply: SumsReply | Failure) -> Tensor:
        """Return a client's sums.

        Raises:
            ProtocolError: it has none that can be used.
        """
        sums = usable(reply).of(client)
        if self._context.experiment.privacy.private:
            most = named(MOST)(self._context.experiment)
            return check_sums(sums, self._form, most, noisy=True)
        return check_sums(sums, self._form, self._context.sizes.train[client])
