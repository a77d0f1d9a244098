"""The loader in JAX arrays, on the devices that a sharding names. The only importer of jax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.loading.loader import ImageLoader as NumpyLoader
from trainload.running.iterator import BatchIterator
from trainload.running.stats import LoaderStats


def _import_jax() -> Any:
    try:
        return import_module("jax")
    except ImportError as error:
        raise UsageError("trainload.jax needs JAX: pip install jax (or jax[cuda12], jax[tpu])") from error


class ImageLoader:
    """`trainload.ImageLoader` in JAX arrays: images, labels, and ids where asked for (int32, or int64 under x64).

    Takes the keywords of trainload.ImageLoader; a program of several processes gives rank=jax.process_index() and
    world_size=jax.process_count(). sharding: a jax.sharding.Sharding or a device, for jax.device_put; None is the
    default device. The copy to the device does not wait: it runs while the next batch is decoded.
    Raises UsageError where jax is not installed.
    """

    def __init__(self, ds: Any, *, sharding: Any = None, **options: Any) -> None:
        self._jax = _import_jax()
        self._sharding = sharding
        self.loader = NumpyLoader(ds, **options)
        self.dataset = self.loader.dataset
        self.batch_size = self.loader.batch_size

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The next epoch, or the rest of one after `load_state_dict`. Work starts at once."""
        return self._batches(iter(self.loader))

    def _batches(self, batches: BatchIterator) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield tuple(self._jax.device_put(part, self._sharding) for part in batch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes."""
        self.loader.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch, unread."""
        self.loader.skip_batches(count)

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self.loader.epoch

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self.loader.epoch_ids(epoch)

    @property
    def stats(self) -> LoaderStats:
        """What the loader did and where its time went."""
        return self.loader.stats

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, in batches handed out: under 1 KB, the same on every rank."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads."""
        self.loader.load_state_dict(state)

    def close(self) -> None:
        """Give the buffers back."""
        self.loader.close()
