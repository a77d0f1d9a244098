"""The channels of a log by the numbers that a file of it gives them; in damaged files, numbers without a channel."""

from __future__ import annotations

from trainload.recordings.importers.source import Channel, Damage

MAX_UNDESCRIBED = 256  # channels of their own; what damage makes of more numbers shares one
_MAX_NUMBERS = 1 << 16


class ChannelNumbers:
    """channels: of the whole log; splits of one log repeat theirs, and equal ones are one. kind: what the format calls
    a channel; name: what messages call the file."""

    def __init__(self, channels: list[Channel], damage: Damage, name: str, kind: str) -> None:
        self._channels = channels
        self._damage = damage
        self._name = name
        self._kind = kind
        self._places: dict[object, int] = {}
        self._known = {identity(channel): place for place, channel in enumerate(channels)}
        self._undescribed = 0

    def __contains__(self, number: object) -> bool:
        return number in self._places

    def add(self, number: object, channel: Channel) -> None:
        """Describe a number; the first description counts."""
        if number not in self._places:
            self._places[number] = self._place(channel)

    def place(self, number: object) -> int:
        """Which of `channels` it is. One that is not described gets a channel of its own and counts as damage."""
        found = self._places.get(number)
        if found is not None:
            return found
        self._undescribed += 1
        topic = f"{self._kind}_{number if self._undescribed <= MAX_UNDESCRIBED else 'others'}"
        self._damage.add(f"{self._name}: {self._kind} {number} is not described, kept as {topic}")
        found = self._place(Channel(topic, "unknown", "unknown"))
        if len(self._places) < _MAX_NUMBERS:
            self._places[number] = found
        return found

    def _place(self, channel: Channel) -> int:
        found = self._known.setdefault(identity(channel), len(self._channels))
        if found == len(self._channels):
            self._channels.append(channel)
        return found


def identity(channel: Channel) -> tuple[object, ...]:
    """All that a channel says of itself, to find it by."""
    metadata = tuple(sorted(channel.metadata.items()))
    return channel.topic, channel.type_name, channel.encoding, channel.schema_encoding, channel.schema, metadata
