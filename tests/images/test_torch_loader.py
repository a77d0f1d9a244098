"""The torch adapter gives the loader's batches as tensors, on the host and on a GPU, alone and under DDP."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from child_processes import running
from loading_data import jpegs, write_dts

torch = pytest.importorskip("torch")

import trainload.torch as tlt  # noqa: E402 (needs torch)
from trainload.torch import station as stations  # noqa: E402

OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]
NORMALIZE = tl.Normalize.imagenet()
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("torch") / "set.dts"
    return write_dts(where, jpegs(44), [n % 4 for n in range(44)], 10)


def loader_of(path, **options):
    return tlt.ImageLoader(path, **{"batch_size": 8, "ops": OPS, "with_ids": True, "workers": 2, **options})


def numpy_batches(path, **options):
    options = {"batch_size": 8, "ops": OPS, "with_ids": True, "layout": "NCHW", **options}
    return [tuple(part.copy() for part in batch) for batch in tl.ImageLoader(path, **options)]


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("ops", [OPS, [*OPS, NORMALIZE]], ids=["uint8", "float32"])
def test_tensors_hold_what_the_arrays_hold(path, channels_last, ops):
    loader = loader_of(path, ops=ops, channels_last=channels_last)
    for (images, labels, ids), expected in zip(loader, numpy_batches(path, ops=ops), strict=True):
        assert images.shape == (len(ids), 3, 16, 16)
        wanted = torch.channels_last if channels_last else torch.contiguous_format
        assert images.is_contiguous(memory_format=wanted)
        assert labels.dtype == ids.dtype == torch.int64
        for tensor, array in zip((images, labels, ids), expected):
            assert np.array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("channels_last", [True, False])
def test_normalize_on_the_device_is_the_loaders_normalize(path, channels_last):
    ops = [*OPS, NORMALIZE]
    loader = loader_of(path, ops=ops, normalize_on_device=True, channels_last=channels_last)
    for (images, *_), (expected, *_) in zip(loader, numpy_batches(path, ops=ops), strict=True):
        assert images.dtype == torch.float32
        assert np.allclose(images.numpy(), expected, atol=1e-2)  # the pictures were rounded to 8 bits on the way
    half = loader_of(path, ops=ops, normalize_on_device=True, dtype=torch.bfloat16)
    assert next(iter(half))[0].dtype == torch.bfloat16
    with pytest.raises(tl.UsageError, match="Normalize"):
        loader_of(path, normalize_on_device=True)


def test_it_stands_where_a_dataloader_stands(path):
    loader = loader_of(path, last="drop")
    assert len(loader) == 5 == sum(1 for _ in loader)
    assert (loader.batch_size, loader.drop_last, len(loader.dataset)) == (8, True, 44)
    loader.sampler.set_epoch(9)
    assert loader.state_dict()["epoch"] == 9
    with pytest.raises(tl.UsageError, match="channels_last"):
        loader_of(path, layout="NHWC")


def test_kept_tensors_stay_and_dropped_iterators_end(path):
    loader = loader_of(path)
    kept = [images for images, *_ in loader]
    copies = [images.clone() for images in kept]
    for _ in loader:
        break
    assert not [t for t in threading.enumerate() if t.name.startswith("trainload")]
    for _ in loader:
        pass
    assert all(torch.equal(a, b) for a, b in zip(kept, copies))


def test_state_and_pickle_carry_on_exactly(path):
    loader = loader_of(path)
    batches = iter(loader)
    next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    other = loader_of(path, seed=77)
    other.load_state_dict(state)
    copy = pickle.loads(pickle.dumps(loader))
    for a, b, c in zip(batches, other, copy, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[0], c[0])


def test_a_training_step_runs_on_it(path):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels, _ in loader_of(path, ops=[*OPS, NORMALIZE]):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


RANK = """
import json, os, sys, threading, torch, torch.distributed as dist
import trainload as tl, trainload.torch as tlt
rank, port, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
loader = tlt.ImageLoader(path, batch_size=4, ops=[tl.RandomResizedCrop(16), tl.Normalize.imagenet()], with_ids=True,
                         mode="partial", last="pad", workers=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Flatten(1), torch.nn.Linear(768, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = []
for images, labels, ids in loader:
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    seen.append(ids.tolist())
weights = model.module[1].weight.detach().sum().item()
threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("trainload")]
print(json.dumps([seen, weights, len(loader), threads]), flush=True)
dist.destroy_process_group()
os._exit(0)  # gloo's threads may still free tensors, which aborts an interpreter that is ending (pytorch #179291)
"""


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_ddp_processes_share_the_epoch(path):
    port, pipes = free_port(), {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    found = []
    with running(RANK, 0, port, path, **pipes) as one, running(RANK, 1, port, path, **pipes) as two:
        for process in (one, two):
            out, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            found.append(json.loads(out.splitlines()[-1]))
    (first, weights, count, threads), (second, other_weights, other_count, other_threads) = found
    assert threads == other_threads == []
    assert weights == other_weights
    assert count == other_count == len(first) == len(second) == 6
    stream = [i for pair in zip(first, second) for ids in pair for i in ids]
    order = tl.ImageLoader(path, batch_size=4, ops=OPS, mode="partial").epoch_ids(0).tolist()
    assert stream == order + order[: len(stream) - len(order)]


# The transfer station


class FakeEvent:
    def synchronize(self):
        pass

    def record(self, stream):
        pass


class FakeStream:
    def __init__(self, device=None):
        self.waited = []

    def record_event(self):
        return FakeEvent()

    def wait_event(self, event):
        self.waited.append(event)


@pytest.fixture
def fake_cuda(monkeypatch):
    """torch.cuda as far as the station uses it, on the host: what it orders, not what it computes, is replaced."""
    current = FakeStream()
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, pin_memory=False, **kw: empty(*shape, **kw))


def through_station(path, ops, *, fixed=False, finish=None, layout="NHWC"):
    """The batches of a loader by way of a station, and the addresses that it decoded to."""
    loader = tl.ImageLoader(path, batch_size=8, ops=ops, workers=2, layout=layout)
    device = torch.device("cpu")
    shape = (8, *loader.picture_shape)
    batches = stations.DeviceBatches(shape, torch.float32 if finish else torch.uint8, device) if fixed else None
    station = stations.TransferStation(shape, torch.uint8, device, finish=finish, fixed=batches)
    found, host, sent = [], set(), set()
    for images, labels in loader.iterate(station):
        host.add(images.ctypes.data)
        tensor, _ = station.send(images, [labels])
        sent.add(tensor.data_ptr())
        found.append(tensor.clone())
    return found, host, sent


@pytest.mark.parametrize("fixed", [False, True])
def test_batches_pass_two_zones_in_turn(path, fake_cuda, fixed):
    found, host, sent = through_station(path, OPS, fixed=fixed)
    assert len(host) == 2
    if fixed:
        assert len(sent) == 2
        expected = numpy_batches(path, layout="NHWC")
        assert all(np.array_equal(a.numpy(), b[0]) for a, b in zip(found, expected, strict=True))


def test_two_stations_take_the_batches_of_a_step_in_turn(path, fake_cuda):
    loader = tl.ImageLoader(path, batch_size=8, ops=OPS, workers=2, layout="NHWC")
    loader.deal(2)
    pair = [stations.TransferStation((8, 16, 16, 3), torch.uint8, torch.device("cpu")) for _ in range(2)]
    batches = loader.iterate(stations.StationsInTurn(pair))
    addresses: list[set[int]] = [set(), set()]
    for number in range(len(loader)):
        for device, job in enumerate(batches.next_step(2)):
            addresses[device].add(job.output[0].ctypes.data)
            tensor, _ = pair[device].send(job.output[0], job.output[1:])
            expected = numpy_batches(path, layout="NHWC", rank=device, world_size=2)[number]
            assert np.array_equal(tensor.numpy(), expected[0])
    assert [len(each) for each in addresses] == [2, 2] and not addresses[0] & addresses[1]


def test_a_batch_operation_with_an_array_of_its_own_is_sent_whole(path, fake_cuda):
    brighter = [*OPS, lambda images, labels: (images // 2 + 100, labels)]
    found, _, _ = through_station(path, brighter, fixed=True)
    expected = numpy_batches(path, ops=brighter, layout="NHWC")
    assert all(np.array_equal(a.numpy(), b[0]) for a, b in zip(found, expected, strict=True))


PARTS = {
    "whole": lambda im: im,
    "first half": lambda im: im[: len(im) // 2],
    "second half": lambda im: im[len(im) // 2 :],
    "every other": lambda im: im[::2],
    "backwards": lambda im: im[::-1],
    "mirrored": lambda im: im[:, :, ::-1],
    "transposed": lambda im: im.transpose(0, 2, 1, 3),
    "channels first": lambda im: im.transpose(0, 3, 1, 2),
    "columns": lambda im: im[:, :, 4:12],
    "flattened": lambda im: im.reshape(len(im), -1),
    "wide": lambda im: im.reshape(len(im), 8, 32, 3),
    "signed bytes": lambda im: im.view(np.int8),
    "pairs of bytes": lambda im: im.reshape(len(im), -1).view(np.int16),
    "one picture repeated": lambda im: np.broadcast_to(im[1:2], im.shape),
    "overlapping windows": lambda im: np.lib.stride_tricks.sliding_window_view(im, 3, axis=1),
    "one gray channel": lambda im: im[..., :1],
    "nothing": lambda im: im[:0],
    "an array of its own": lambda im: im + 1,
    "floats": lambda im: im.astype(np.float32),
}


@pytest.mark.parametrize("part", PARTS)
def test_what_a_batch_operation_makes_of_the_zone_is_what_is_sent(path, fake_cuda, part):
    ops = [*OPS, lambda images, labels: (PARTS[part](images), labels)]
    found, _, _ = through_station(path, ops)
    expected = numpy_batches(path, ops=ops, layout="NHWC")
    for tensor, (images, *_) in zip(found, expected, strict=True):
        assert str(tensor.dtype) == f"torch.{images.dtype}"
        assert np.array_equal(tensor.numpy().view(np.uint8), images.copy().view(np.uint8))


def test_the_whole_batch_in_place_is_sent_without_a_copy(path, fake_cuda):
    station = stations.TransferStation((8, 4, 4, 3), torch.uint8, torch.device("cpu"))
    for count in (8, 5):
        images = station.take(count)
        assert images is not None
        tensor, _ = station.send(images, [np.zeros(count)])
        assert (tensor.data_ptr(), tuple(tensor.shape)) == (images.ctypes.data, images.shape)


@pytest.mark.parametrize("part", ["floats", "one gray channel", "flattened", "signed bytes", "transposed wide"])
@pytest.mark.parametrize("finish", [None, lambda tensor, out: out.copy_(tensor)], ids=["bytes", "finished there"])
def test_fixed_addresses_refuse_pictures_of_another_kind(path, fake_cuda, part, finish):
    changed = {**PARTS, "transposed wide": lambda im: im.reshape(len(im), 8, 32, 3).transpose(0, 2, 1, 3)}[part]
    ops = [*OPS, lambda images, labels: (changed(images), labels)]
    if finish is not None and part in ("floats", "signed bytes"):
        assert through_station(path, ops, fixed=True, finish=finish)
        return
    with pytest.raises(tl.UsageError, match="a batch operation made pictures of"):
        through_station(path, ops, fixed=True, finish=finish)


@needs_gpu
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_on_a_gpu_every_batch_arrives_whole(path, fixed, on_device):
    ops = [*OPS, NORMALIZE]
    loader = loader_of(path, ops=ops, device="cuda", fixed_addresses=fixed, normalize_on_device=on_device)
    for _ in range(3):
        epoch = loader.state_dict()["epoch"]
        host = tl.ImageLoader(path, batch_size=8, ops=ops, with_ids=True)
        host.set_epoch(epoch)
        for (images, labels, ids), expected in zip(loader, host, strict=True):
            assert images.device.type == "cuda"
            assert np.array_equal(ids.cpu().numpy(), expected[2])
            assert np.array_equal(labels.cpu().numpy(), expected[1])
            assert np.allclose(images.cpu().numpy(), expected[0], atol=1e-2 if on_device else 0)
