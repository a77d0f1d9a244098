"""What a loader did and where its time went."""

from __future__ import annotations

from dataclasses import dataclass

from trainload.errors import SampleError
from trainload.storage.traffic import Traffic


@dataclass(slots=True)
class LoaderStats:
    """Counts and seconds since the loader was made (or `reset()`); its workers write, anyone may read.

    samples, batches: handed to the consumer. replaced: those of them that stood in for damaged ones; last_replaced:
    why.
    read_bytes, read_seconds: of all IO workers together. decode_seconds: of all decode workers together.
    elapsed_seconds: between the first request and the last delivery of every epoch, the consumer's own work included.
    consumer_waits_seconds: the consumer stood waiting for a batch. data_waits_seconds: decode workers stood waiting for
    bytes. idle_seconds: decode workers had nothing to do because every batch array was full.
    network_bytes, cache_bytes: of a set on a server, what came from there and from the cache on this machine.
    network_retries: requests that were made again. slowest_read_seconds: of one read from the server, its tries and
    waits included.
    """

    samples: int = 0
    batches: int = 0
    replaced: int = 0
    last_replaced: SampleError | None = None
    read_bytes: int = 0
    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    consumer_waits_seconds: float = 0.0
    data_waits_seconds: float = 0.0
    idle_seconds: float = 0.0
    network_bytes: int = 0
    cache_bytes: int = 0
    network_retries: int = 0
    slowest_read_seconds: float = 0.0

    @property
    def samples_per_second(self) -> float:
        """Samples handed over per second of `elapsed_seconds`."""
        return self.samples / self.elapsed_seconds if self.elapsed_seconds else 0.0

    @property
    def bottleneck(self) -> str:
        """What a faster loader would have to make faster: "network", "storage", "decode" or "consumer"; "" before
        any batch.

        The consumer, where it waited less than a tenth of the time; else storage, where the decode workers waited for
        bytes longer than they decoded: the network, where more of them came from there than from this machine.
        """
        if not self.batches:
            return ""
        if self.consumer_waits_seconds < 0.1 * self.elapsed_seconds:
            return "consumer"
        if self.data_waits_seconds <= self.decode_seconds:
            return "decode"
        return "network" if self.network_bytes > self.read_bytes - self.network_bytes else "storage"

    def count_traffic(self, traffic: Traffic) -> None:
        """Some reads of a set on a server are done."""
        self.network_bytes += traffic.network_bytes
        self.cache_bytes += traffic.cache_bytes
        self.network_retries += traffic.retries
        self.slowest_read_seconds = max(self.slowest_read_seconds, traffic.slowest_seconds)

    def count_replaced(self, count: int, error: SampleError) -> None:
        """`count` samples of one batch were replaced; `error` says why the last was."""
        self.replaced += count
        self.last_replaced = error

    def reset(self) -> None:
        """Set every count to zero."""
        for name, slot in type(self).__dataclass_fields__.items():
            setattr(self, name, slot.default)
