"""The transfer station: pinned zones that the decoder fills in place, and their copies to a GPU on a stream of its own.

Zone A is copied while zone B fills. A zone is lent to the decoder (`take`), comes back with a finished batch (`send`),
and is lent again once its copy is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.torch.normalize import DeviceNormalize

ZONES = 2


class Zone:
    """One pinned batch. lent: the decoder or a batch in the making has it. copied: its last copy to the device."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.tensor = torch.empty(tuple(shape), dtype=dtype, pin_memory=True)
        self.array: NDArray[Any] = self.tensor.numpy()
        self.lent = False
        self.copied = torch.cuda.Event()


class DeviceBatches:
    """Two device tensors at fixed addresses; each is written again once the work on its last batch is queued."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
        self.tensors = [torch.empty(tuple(shape), dtype=dtype, device=device) for _ in range(ZONES)]
        self._turn = 0  # goes on from one pass to the next: the other tensor's work may still be queued
        self._used: list[torch.cuda.Event] = []  # for each of the last two requests: the work queued before it

    def take_turn(self, stream: torch.cuda.Stream, current: torch.cuda.Stream) -> torch.Tensor:
        """The tensor for the next batch. `stream` will wait for the work on the batch before the last, no longer."""
        if len(self._used) == ZONES:
            self._used.pop(0)
        if self._used:
            stream.wait_event(self._used[0])
        self._used.append(current.record_event())
        self._turn += 1
        return self.tensors[self._turn % ZONES]


class StationsInTurn:
    """Lends zones of several stations, one after the other: the n-th batch of a step is for the n-th station."""

    def __init__(self, stations: Sequence[TransferStation]) -> None:
        self._stations = stations
        self._turn = 0

    def take(self, count: int) -> NDArray[Any] | None:
        """As TransferStation.take; the same station is next until it has a zone."""
        zone = self._stations[self._turn % len(self._stations)].take(count)
        self._turn += zone is not None
        return zone


class TransferStation:
    """Lends pinned zones to the decoder and sends what they hold to the device. One per pass, one consumer.

    shape, dtype: of a whole batch on the host. finish: what the device does to it. fixed: device tensors to alternate
    between; without, every batch is a fresh tensor of torch's caching allocator.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        *,
        finish: DeviceNormalize | None = None,
        fixed: DeviceBatches | None = None,
    ) -> None:
        self._zones = [Zone(shape, dtype) for _ in range(ZONES)]
        self._stream = torch.cuda.Stream(device)
        self._device = device
        self._finish = finish
        self._fixed = fixed
        self._lent = 0  # zones lent so far; zone n % 2 is the next
        self._sent = 0

    def take(self, count: int) -> NDArray[Any] | None:
        """The next zone for a batch of `count` pictures; None while it is with the decoder. Waits for its copy."""
        zone = self._zones[self._lent % ZONES]
        if zone.lent:
            return None
        zone.copied.synchronize()
        zone.lent = True
        self._lent += 1
        return zone.array[:count]

    def send(self, images: NDArray[Any], others: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
        """The batch of the zone that was lent first, and its labels and ids, on the device.

        The consumer's current stream waits for the copy; the host does not.
        """
        zone = self._zones[self._sent % ZONES]
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            sent = self._send_images(self._source(zone, images), current)
            rest = [torch.from_numpy(part).pin_memory().to(self._device, non_blocking=True) for part in others]
            arrived = self._stream.record_event()
        current.wait_event(arrived)
        for tensor in (sent, *rest):
            tensor.record_stream(current)
        zone.copied.record(self._stream)
        zone.lent = False
        self._sent += 1
        return [sent, *rest]

    def _source(self, zone: Zone, images: NDArray[Any]) -> torch.Tensor:
        """The pictures in pinned memory: those of the zone where they are as the decoder left them, else a copy.

        A batch operation may have returned a part of the batch, another view of it, or an array of its own.
        """
        count = len(images)
        if images.__array_interface__ == zone.array[:count].__array_interface__:  # address, shape, strides, type
            return zone.tensor[:count]
        return torch.from_numpy(np.ascontiguousarray(images)).pin_memory()

    def _send_images(self, source: torch.Tensor, current: torch.cuda.Stream) -> torch.Tensor:
        target = None
        if self._fixed is not None:
            target = self._fixed.take_turn(self._stream, current)[: len(source)]
            wanted = target.dtype if self._finish is None else source.dtype
            if (source.dtype, source.shape) != (wanted, target.shape):  # copy_ would convert and repeat, in silence
                raise UsageError(
                    f"a batch operation made pictures of {source.dtype} {tuple(source.shape)}; with fixed_addresses "
                    f"they must stay {wanted} {tuple(target.shape)}"
                )
        if self._finish is None:
            if target is None:
                return source.to(self._device, non_blocking=True)
            return target.copy_(source, non_blocking=True)
        return self._finish(source.to(self._device, non_blocking=True), target)
