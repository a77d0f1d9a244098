"""Stats count what was handed over and name the bottleneck."""

from __future__ import annotations

from typing import Any

import numpy as np

import trainload as tl
from loading_data import jpegs, write_dts
from trainload.images.loading.quality import shuffle_quality
from trainload.running.stats import LoaderStats


def test_counts_are_what_was_handed_over(tmp_path):
    path = write_dts(tmp_path / "set.dts", jpegs(30), [0] * 30, 10)
    loader = tl.ImageLoader(path, batch_size=8, ops=[tl.RandomResizedCrop(16)], mode="fully")
    for _ in range(2):
        for _ in loader:
            pass
    stats = loader.stats
    assert (stats.samples, stats.batches, stats.replaced) == (60, 8, 0)
    assert stats.read_bytes == 3 * 16 << 20
    assert stats.samples_per_second > 0
    assert stats.bottleneck in ("decode", "storage", "consumer")
    stats.reset()
    assert stats == LoaderStats()


def test_the_bottleneck_follows_the_waits():
    def stats(**seconds: Any) -> LoaderStats:
        return LoaderStats(samples=1, batches=1, elapsed_seconds=10.0, **seconds)

    assert LoaderStats().bottleneck == ""
    assert stats(consumer_waits_seconds=0.5, decode_seconds=3.0).bottleneck == "consumer"
    assert stats(consumer_waits_seconds=8.0, decode_seconds=15.0, data_waits_seconds=1.0).bottleneck == "decode"
    assert stats(consumer_waits_seconds=8.0, decode_seconds=3.0, data_waits_seconds=15.0).bottleneck == "storage"


def test_the_ideal_number_of_classes_is_that_of_random_draws():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 13)
    drawn = [len(set(rng.choice(labels, 25, replace=False))) for _ in range(4000)]
    assert abs(shuffle_quality(labels, 25).ideal - np.mean(drawn)) < 0.1
    assert shuffle_quality(labels, 1000).ratio == 1.0
    assert shuffle_quality(labels[:0], 5).ratio == 1.0
