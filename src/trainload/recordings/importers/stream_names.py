"""Streams that want the same name, as a topic whose messages change their form makes them: which of them gets it."""

from __future__ import annotations

from collections.abc import Mapping

from trainload.recordings.format.exported import LOG_TIME
from trainload.recordings.importers.source import SourceStream

_FORMS_TOLD, _TOPICS_TOLD = 5, 20


class WantedNames:
    """Collects the streams of an import. The one of a topic with the most frames is to have the topic's plain name."""

    def __init__(self) -> None:
        self._by_topic: dict[str, list[SourceStream]] = {}

    def add(self, stream: SourceStream) -> None:
        if stream.topic:
            self._by_topic.setdefault(stream.topic, []).append(stream)

    def swaps(self, counts: Mapping[str, int]) -> list[tuple[str, str]]:
        """Pairs of stream names to exchange. counts: frames per stream. Of equal ones the earlier keeps its name."""
        found = []
        for streams in self._by_topic.values():
            largest = max(streams, key=lambda stream: counts[stream.name])
            if counts[largest.name] > counts[streams[0].name]:
                found.append((streams[0].name, largest.name))
        return found

    def notes(self, counts: Mapping[str, int], names: Mapping[str, str]) -> list[str]:
        """Why topics have several streams, in sentences. names: what streams are called in the end, where it is another
        name than they were given."""
        return [
            f"{topic} has messages of {len(streams):,} forms: "
            + "; ".join(
                f"{counts[stream.name]:,} in {names.get(stream.name, stream.name)} ({_form(stream)})"
                for stream in sorted(streams, key=lambda stream: -counts[stream.name])[:_FORMS_TOLD]
            )
            + ("; ..." if len(streams) > _FORMS_TOLD else "")
            for topic, streams in self._by_topic.items()
            if len(streams) > 1
        ][:_TOPICS_TOLD]


def _form(stream: SourceStream) -> str:
    shape = " x ".join(map(str, stream.shape)) if stream.shape else ""
    kind = " ".join(filter(None, (stream.kind, stream.encoding, shape)))
    time = "stamped" if stream.time_source != LOG_TIME else "without a stamp, at log time"
    return f"{kind}, {time}"
