"""All five loaders keep one protocol, take the same keywords, and know what people bring from torch's DataLoader."""

from __future__ import annotations

import inspect
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import trainload as tl
import trainload.jax as tlj
from drive_data import write_drive
from loading_data import jpegs, write_dts, write_folder
from trainload.images.loading.options import AdapterOptions, ImageOptions
from trainload.recordings.samples.options import HyperframeOptions
from trainload.running.arguments import FOREIGN

BATCH = 4
KINDS = ("numpy", "torch", "jax", "recordings", "torch recordings")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    where = tmp_path_factory.mktemp("protocol")
    write_drive(where / "drive.hfr", seconds=2.0)
    return write_dts(where / "set.dts", jpegs(22), [n % 4 for n in range(22)], 7), where / "drive.hfr"


@pytest.fixture(params=KINDS)
def make(
    request: pytest.FixtureRequest, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Makes a loader of one of the five kinds."""
    if "jax" in request.param:  # its arrays do not matter here, and its threads would be in the way of tests that fork
        monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(device_put=lambda part, sharding: part))
    if "torch" in request.param:
        pytest.importorskip("torch")
        import trainload.torch as tlt
    if "recordings" in request.param:
        dataset = tl.WindowDataset([sets[1]], streams=["odometry"])
        kind: Any = tlt.HyperframeLoader if "torch" in request.param else tl.HyperframeLoader
        return lambda **options: kind(dataset, **{"batch_size": BATCH, "workers": 2, **options})
    kind = {"numpy": tl.ImageLoader, "jax": tlj.ImageLoader}.get(request.param) or tlt.ImageLoader
    given = {"batch_size": BATCH, "ops": [tl.RandomResizedCrop(16)], "workers": 2, "with_ids": True}
    return lambda **options: kind(sets[0], **{**given, **options})


def test_type_checkers_take_every_loader_for_a_loader() -> None:
    if TYPE_CHECKING:
        import trainload.torch as tlt

        kinds: list[type[tl.Loader[Any]]] = [tl.ImageLoader, tl.HyperframeLoader, tlj.ImageLoader]
        kinds += [tlt.ImageLoader, tlt.HyperframeLoader]


def ids_of(batch: Any) -> list[int]:
    return np.asarray(batch.ids if hasattr(batch, "ids") else batch[2]).tolist()


def test_every_loader_is_a_loader(make: Callable[..., Any]) -> None:
    loader = make()
    assert isinstance(loader, tl.Loader) and loader.batch_size == BATCH
    assert len(loader) == -(-len(loader.epoch_ids(0)) // BATCH)
    assert isinstance(loader.memory_plan(), tl.MemoryPlan) and loader.memory_plan().total_bytes > 0


def test_an_epoch_is_what_epoch_ids_says_and_the_next_one_follows(make: Callable[..., Any]) -> None:
    with make() as loader:
        for epoch in range(2):
            assert loader.epoch == epoch
            assert [i for batch in loader for i in ids_of(batch)] == loader.epoch_ids(epoch).tolist()
        loader.set_epoch(7)
        assert loader.epoch == 7 and ids_of(next(iter(loader))) == loader.epoch_ids(7)[:BATCH].tolist()
        assert loader.stats.batches == 2 * len(loader) + 1


def test_a_loader_goes_on_from_a_state_a_pickle_and_after_skipped_batches(make: Callable[..., Any]) -> None:
    loader = make(seed=3)
    batches = iter(loader)
    next(batches)
    next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = loader.epoch_ids(0)[2 * BATCH :].tolist()
    loaded, copied, skipped = make(), pickle.loads(pickle.dumps(loader)), make(seed=3)
    loaded.load_state_dict(state)
    skipped.skip_batches(2)
    for other in (loaded, copied, skipped):
        assert [i for batch in other for i in ids_of(batch)] == expected
    with pytest.raises(tl.UsageError, match="another set"):
        loaded.load_state_dict({**state, "samples": "0" * 16})


def test_a_closed_loader_iterates_no_more_and_closes_again(make: Callable[..., Any]) -> None:
    with make() as loader:
        running = iter(loader)
        first = ids_of(next(running))
    loader.close()
    assert first + [i for batch in running for i in ids_of(batch)] == loader.epoch_ids(0).tolist()
    with pytest.raises(tl.UsageError, match="closed"):
        iter(loader)


@pytest.mark.parametrize("name", [*FOREIGN, "transform", "collate_fn", "prefetch_factor"])
def test_arguments_of_torchs_dataloader_are_refused_and_ours_named(make: Callable[..., Any], name: str) -> None:
    with pytest.raises(tl.UsageError, match=f"^{name}: .*(=|leave it out)"):
        make(**{name: 4})


@pytest.mark.parametrize(
    ("name", "value"), [("shuffle", "some"), ("last", "keep"), ("batch_size", 0), ("workers", 0), ("seed", -1)]
)
def test_arguments_that_cannot_be_are_named(make: Callable[..., Any], name: str, value: object) -> None:
    with pytest.raises(tl.UsageError, match=name):
        make(**{name: value})


def test_an_unknown_argument_is_a_type_error(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="batchsize"):
        make(batchsize=4)


def test_typed_options_are_the_keywords_of_the_loaders() -> None:
    adapters = {"batch_size": "int", **AdapterOptions.__annotations__, "ops": None, "layout": None}
    for typed, loader in ((ImageOptions, tl.ImageLoader), (HyperframeOptions, tl.HyperframeLoader)):
        parameters = dict(list(inspect.signature(loader).parameters.items())[1:])  # but the set
        parameters.pop("batch_op", None)
        found = {name: kind.__forward_arg__ for name, kind in typed.__annotations__.items()}
        assert found == {name: parameter.annotation for name, parameter in parameters.items()}
    assert adapters.keys() == ImageOptions.__annotations__.keys()


def test_help_shows_the_arguments_of_a_loader() -> None:
    assert "batch_size: 'int'" in str(inspect.signature(tl.ImageLoader))
    assert "batch_size: 'int'" in str(inspect.signature(tl.HyperframeLoader))


@pytest.mark.parametrize("name", ["val", "Validation", "test", "val_images"])
def test_a_folder_that_is_called_validation_must_say_whether_it_is_shuffled(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / name, jpegs(12), sorted(n % 3 for n in range(12)))
    options: dict[str, Any] = {"batch_size": BATCH, "ops": [tl.Resize((16, 16))]}
    with pytest.raises(tl.UsageError, match="shuffle='none'"):
        tl.ImageLoader(folder, **options)
    assert tl.ImageLoader(folder, shuffle="none", **options).shuffle == "none"
    assert tl.ImageLoader(folder, shuffle=False, **options).shuffle == "none"
    assert tl.ImageLoader(folder, shuffle=True, **options).shuffle == "full"
    assert tl.ImageLoader(folder, weights=[1.0] * 12, **options).shuffle == "weighted"


def test_a_folder_with_another_name_is_shuffled(tmp_path: Path) -> None:
    for name in ("train", "flowers", "values"):
        folder = write_folder(tmp_path / name, jpegs(4), [0, 0, 1, 1])
        assert tl.ImageLoader(folder, batch_size=2, ops=[tl.Resize((16, 16))]).shuffle == "full"


@pytest.mark.parametrize("name", ["prefetch", "io_workers"])
def test_tuning_refuses_what_cannot_be(name: str) -> None:
    with pytest.raises(tl.UsageError, match=name):
        tl.Tuning(**dict[str, Any]({name: 0}))
