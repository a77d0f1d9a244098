"""However a loader is left, its threads end, its handles close, its memory goes, and errors reach the caller."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from child_processes import running
from loading_data import jpegs, write_dts

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to see memory in")
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("lifecycle") / "set.dts"
    return write_dts(where, jpegs(40), [n % 4 for n in range(40)], 10)


def loader_of(path, **options):
    return tl.ImageLoader(path, **{"batch_size": 4, "ops": OPS, "with_ids": True, "workers": 2, **options})


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("trainload")]


def open_handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_threads_end_when_the_for_loop_is_left(path, mode):
    loader = loader_of(path, mode=mode)
    for _ in loader:
        assert our_threads()
        break
    assert our_threads() == []


def test_threads_end_with_the_epoch_with_close_and_with_the_last_reference(path):
    loader = loader_of(path)
    for _ in loader:
        pass
    assert our_threads() == []
    iterator = iter(loader)
    iterator.close()
    iterator.close()
    assert our_threads() == []
    assert list(iterator) == []
    iterator = iter(loader)
    del iterator
    assert our_threads() == []


def test_dropping_a_loader_frees_it_at_once(path):
    loader = loader_of(path, mode="partial")
    iterator = iter(loader)
    next(iterator)
    gone = weakref.ref(loader)
    gc.disable()
    try:
        del loader, iterator
        assert gone() is None
        assert our_threads() == []
    finally:
        gc.enable()


def test_closing_twice_is_fine_and_a_closed_loader_says_so(path):
    loader = loader_of(path)
    loader.close()
    loader.close()
    with pytest.raises(tl.UsageError, match="closed"):
        iter(loader)


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_thousand_abandoned_iterators_leave_nothing(path, mode):
    loader = loader_of(path, mode=mode, group_blocks=1, tuning=tl.Tuning(io_workers=1))

    def abandon(count: int) -> None:
        for n in range(count):
            iterator = iter(loader)
            if n % 3:
                next(iterator)

    for _ in loader:  # touches every page of the buffers
        pass
    abandon(100)
    handles, memory = open_handles(), resident_bytes()
    abandon(1000)
    assert our_threads() == []
    assert open_handles() == handles
    assert resident_bytes() - memory < 16 << 20


def test_an_error_in_a_batch_operation_reaches_the_caller_with_its_traceback(path):
    def fail_late(images, labels):
        if 17 in labels:
            raise RuntimeError("no such label")
        return images, labels

    where = write_dts(path.with_name("late.dts"), jpegs(20), list(range(20)), 10)
    loader = loader_of(where, ops=[*OPS, fail_late], shuffle="none")
    seen = []
    with pytest.raises(RuntimeError, match="no such label") as caught:
        for _, labels, _ in loader:
            seen += labels.tolist()
    assert seen == list(range(16))  # the batches before it came
    assert "fail_late" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert our_threads() == []


def test_an_operation_that_returns_nonsense_is_named(path):
    with pytest.raises(tl.UsageError, match="must return"):
        next(iter(loader_of(path, ops=[*OPS, lambda images, labels: None])))


def test_two_loaders_at_once_give_what_each_gives_alone(path):
    def loaders():
        return loader_of(path, mode="partial", seed=1), loader_of(path, mode="fully", seed=2)

    together = [(a[0].copy(), b[0].copy()) for a, b in zip(*loaders())]
    for n, loader in enumerate(loaders()):
        for pair, batch in zip(together, loader, strict=True):
            assert np.array_equal(pair[n], batch[0])


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_two_iterators_of_one_loader_both_run(path, mode):
    loader = loader_of(path, mode=mode, group_blocks=1, tuning=tl.Tuning(io_workers=1))
    first, second = iter(loader), iter(loader)
    ids: list[list[int]] = [[], []]
    for a, b in zip(first, second, strict=True):
        ids[0] += a[2].tolist()
        ids[1] += b[2].tolist()
    assert ids == [loader.epoch_ids(0).tolist(), loader.epoch_ids(1).tolist()]


def test_a_state_loaded_elsewhere_does_not_turn_a_running_iterator(path):
    pair = tl.BufferPair()
    options = {"mode": "partial", "group_blocks": 1, "tuning": tl.Tuning(io_workers=1, buffers=pair)}
    loader, other = loader_of(path, **options), loader_of(path, **options)
    expected = loader.epoch_ids(0).tolist()
    iterator = iter(loader)
    seen = next(iterator)[2].tolist()
    loader.load_state_dict({**loader.state_dict(), "seed": 5, "shuffle": "full"})
    next(iter(other))  # takes the buffers: the iterator must start anew, by the order that it had
    seen += [i for _, _, ids in iterator for i in ids]
    assert seen == expected
    assert loader.state_dict()["position"] == 4
    assert loader.epoch_ids(0).tolist() != expected


def test_what_the_caller_keeps_stays_as_it_is(path):
    loader = loader_of(path)
    kept = [batch[0] for batch in loader]
    copies = [images.copy() for images in kept]
    part = next(iter(loader))[0][1:3, ::2]  # a view of a batch that is dropped itself
    expected = part.copy()
    for _ in range(3):
        for _ in loader:
            pass
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies))
    assert np.array_equal(part, expected)


def test_batches_use_a_few_arrays_again_and_again(path):
    loader = loader_of(path, tuning=tl.Tuning(prefetch=2))
    addresses = {images.ctypes.data for _ in range(4) for images, *_ in loader}
    assert len(addresses) <= 4


def test_a_loader_pickles_with_its_place(path):
    loader = loader_of(path)
    next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()


def _rest_in_child(loader, queue):
    queue.put([ids.tolist() for _, _, ids in loader])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_loader_works_in_a_child_process(path, method):
    loader = loader_of(path, mode="partial")
    iterator = iter(loader)  # its threads run while the child is made
    next(iterator)
    state = loader.state_dict()
    loader.load_state_dict(state)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_rest_in_child, args=(loader, queue), daemon=True)
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert found == [ids.tolist() for _, _, ids in iterator]


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_an_iterator_goes_on_in_a_forked_child(path):
    iterator = iter(loader_of(path, mode="partial"))
    next(iterator)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rest = [int(i) for _, _, ids in iterator for i in ids]
            os.write(writer, repr(rest).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    assert found == repr([int(i) for _, _, ids in iterator for i in ids])


INTERRUPTED = """
import sys, time
import trainload as tl

def slow(images, labels):
    time.sleep({batch})
    return images, labels

loader = tl.ImageLoader(sys.argv[1], batch_size=2, ops=[tl.RandomResizedCrop(16), slow], mode="partial")
print("ready", flush=True)
for epoch in range(10**6):
    for _ in loader:
        time.sleep({consumer})
"""


@pytest.mark.parametrize("batch, consumer", [(0.0, 0.3), (0.3, 0.0)])
def test_an_interrupt_ends_the_program_within_two_seconds(path, batch, consumer):
    program = INTERRUPTED.format(batch=batch, consumer=consumer)
    with running(program, path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=20)
        assert "KeyboardInterrupt" in errors
        assert time.monotonic() - started < 2.0


def test_a_program_that_leaves_an_iterator_running_ends_cleanly(path):
    program = (
        "import sys, trainload as tl\n"
        "loader = tl.ImageLoader(sys.argv[1], batch_size=2, ops=[tl.RandomResizedCrop(16)])\n"
        "iterator = iter(loader); next(iterator)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
