"""`trainload cache`: what of remote sets lies on this machine, fetched ahead, and removed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.storage.cache_folder import CachedObject, cached_objects, clear_object, default_folder
from trainload.storage.containers import find_files
from trainload.storage.location import access_of, is_url, open_source

cache_app = typer.Typer(no_args_is_help=True, help="List, fill and clear the cache of remote sets on this machine.")
app.add_typer(cache_app, name="cache")

Folder = Annotated[
    Path | None, typer.Option("--folder", help="The cache; else $XDG_CACHE_HOME or ~/.cache, trainload/blocks.")
]


@cache_app.command("ls")
def list_cache(folder: Folder = None) -> None:
    """List the objects that the cache holds blocks of, the last used first."""
    table = Table(box=None, pad_edge=False)
    for title in ("URL", "kept", "of", "share", "last use"):
        table.add_column(title, justify="left" if title == "URL" else "right", overflow="fold")
    found = cached_objects(folder or default_folder())
    for one in found:
        share = f"{min(1.0, one.kept_bytes / max(one.size, 1)):.0%}"
        table.add_row(one.url, f"{one.kept_bytes:,}", f"{one.size:,}", share, _ago(one))
    console = Terminal()
    if found:
        console.print(table)
    console.print(f"{sum(one.kept_bytes for one in found):,} bytes of {len(found):,} objects", soft_wrap=True)


@cache_app.command("warm")
def warm_cache(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Sets and recordings, quoted patterns of them.")],
    folder: Folder = None,
    size: Annotated[str, typer.Option("--bytes", help="What each set may take, as 200GB; auto: all of it.")] = "auto",
) -> None:
    """Fetch what the cache keeps of these objects, so that the first epoch finds it here."""
    from trainload.storage.cached import CachedSource  # the extra trainload[remote]

    access = access_of(None, folder or default_folder(), size)
    console = Terminal()
    for url in find_files(urls, access):
        if not is_url(url):
            raise UsageError(f"a file of this machine needs no cache: {url}")
        with open_source(url) as source, progress_bar("fetching", in_bytes=True) as progress:
            assert isinstance(source, CachedSource)
            done = 0
            for looked_at in source.warm():
                done += looked_at
                if progress is not None:
                    progress(done, source.size)
            counted = source.take_traffic()
        console.print(
            f"{url}: {counted.network_bytes:,} bytes fetched, {counted.cache_bytes:,} were there", soft_wrap=True
        )


@cache_app.command("clear")
def clear_cache(
    urls: Annotated[list[str] | None, typer.Argument(metavar="[URL...]", help="Objects, as `ls` shows them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Clear all of the cache.")] = False,
    folder: Folder = None,
) -> None:
    """Remove the blocks of some objects, or of all; what reads them goes on over the network."""
    place = folder or default_folder()
    if bool(urls) == everything:
        raise UsageError("name the URLs to clear, or give --all")
    found = cached_objects(place)
    wanted = set(urls or [])
    unknown = wanted - {one.url for one in found}
    if unknown:
        raise UsageError(f"the cache holds nothing of {', '.join(sorted(unknown))}; `trainload cache ls` lists it")
    freed = sum(clear_object(place, one.key) for one in found if everything or one.url in wanted)
    Terminal().print(f"{freed:,} bytes freed")


def _ago(one: CachedObject) -> str:
    hours = max(0.0, time.time() - one.last_use) / 3600
    return f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} h ago" if hours >= 1 else "this hour"
