"""What a loader is asked for: one check and one message for each argument that all loaders have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from numbers import Integral
from typing import Any, ParamSpec

from trainload.errors import UsageError
from trainload.running.order import SHUFFLES, AskedShuffle, Shuffle

P = ParamSpec("P")

# What people bring from torch's DataLoader, and what does the same here.
FOREIGN: dict[str, str] = {
    "num_workers": "workers=N are threads of this process; left out, one per usable CPU",
    "drop_last": "last='drop' leaves out what fills no whole step, last='short' and 'pad' keep it",
    "pin_memory": "leave it out; trainload.torch.ImageLoader(device='cuda') decodes into pinned memory",
    "pin_memory_device": "leave it out; trainload.torch.ImageLoader(device='cuda') decodes into pinned memory",
    "sampler": "shuffle= chooses the order; rank= and world_size= the share of a process",
    "batch_sampler": "batch_size=, shuffle= and last= make the batches",
    "persistent_workers": "leave it out; workers are threads, and memory stays from epoch to epoch",
    "worker_init_fn": "leave it out; workers are threads, and random numbers depend on (seed, epoch, sample) alone",
    "generator": "seed=N decides the order and all random numbers",
    "multiprocessing_context": "leave it out; workers are threads of this process",
    "timeout": "leave it out; what a worker raises reaches the loop",
    "in_order": "leave it out; batches always come in order",
    "num_replicas": "world_size=N, with rank=",
}


def refuses_foreign(hints: Mapping[str, str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """For an `__init__`: a UsageError for an argument of torch's DataLoader, naming ours. hints: by foreign name."""

    def wrap(init: Callable[P, None]) -> Callable[P, None]:
        @wraps(init)
        def checked(*args: P.args, **options: P.kwargs) -> None:
            for name in options:
                if name in hints:
                    raise UsageError(f"{name}: {hints[name]}")
            init(*args, **options)

        return checked

    return wrap


def own_options(given: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """An `__init__`'s arguments by name, from its locals(): what makes the same loader again."""
    return {name: value for name, value in given.items() if name not in ("self", "__class__", *without)}


def check_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Raise UsageError for a value that is none of `allowed`."""
    if value not in allowed:
        raise UsageError(f"{name} is {value!r}; give one of {', '.join(allowed)}")


def check_count(name: str, value: object) -> None:
    """Raise UsageError for what is no number above 0."""
    if not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{name} is {value!r}; give a number above 0")


def shuffle_kind(
    asked: AskedShuffle, *, auto: Shuffle, mixed: Shuffle, weighted: bool = False, lanes: bool = False
) -> Shuffle:
    """The order that is meant by `shuffle=`. auto: what "auto" is; mixed: what True is; False is "none". UsageError.

    lanes: "lanes" may be asked for.
    """
    if weighted:
        if asked not in ("auto", True):
            raise UsageError("weights draw the samples themselves: leave shuffle at 'auto'")
        return "weighted"
    if asked is True:
        return mixed
    if asked is False:
        return "none"
    check_choice("shuffle", asked, ("auto", *SHUFFLES[: 4 if lanes else 3]))
    return auto if asked == "auto" else asked
