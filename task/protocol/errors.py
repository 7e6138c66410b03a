"""The error of a message that cannot be used."""


class ProtocolError(ValueError):
    """A message that does not have the agreed form; the text names the field and the reason."""
