"""The loader in JAX arrays, on the devices that a sharding names. The only importer of jax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Self, Unpack

from trainload.errors import UsageError
from trainload.images.loading.image_loader import ImageLoader as NumpyLoader
from trainload.images.loading.options import ImageOptions, options_with_ops
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out
from trainload.images.reading.image_set import GivenSet
from trainload.running.delegate import LoaderDelegate
from trainload.running.iterator import BatchIterator


def _import_jax() -> Any:
    try:
        return import_module("jax")
    except ImportError as error:
        raise UsageError("trainload.jax needs JAX: pip install jax (or jax[cuda12], jax[tpu])") from error


class ImageLoader(LoaderDelegate[NumpyLoader]):
    """`trainload.ImageLoader` in JAX arrays: images, labels, and ids where asked for (int32, or int64 under x64).

    Takes the keywords of trainload.ImageLoader; a program of several processes gives rank=jax.process_index() and
    world_size=jax.process_count(). sharding: a jax.sharding.Sharding or a device, for jax.device_put; None is the
    default device. The copy to the device does not wait: it runs while the next batch is decoded.
    Raises UsageError where jax is not installed.
    """

    def __init__(self, ds: GivenSet, *, sharding: Any = None, **options: Unpack[ImageOptions]) -> None:
        self._jax = _import_jax()
        self._sharding = sharding
        super().__init__(NumpyLoader(ds, **options), {"sharding": sharding, **options})

    def with_ops(self, ops: Sequence[Operation], *, out: Out | None = None, batch_size: int | None = None) -> Self:
        """A new loader with other operations over the same memory, as `trainload.ImageLoader.with_ops` says."""
        loader = type(self)(self.dataset, **options_with_ops(self._options, ops, out, batch_size))
        loader.loader.go_on_from(self.loader)
        return loader

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The next epoch, or the rest of one after `load_state_dict`. Work starts at once."""
        return self._batches(iter(self.loader))

    def _batches(self, batches: BatchIterator) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield tuple(self._jax.device_put(part, self._sharding) for part in batch)
