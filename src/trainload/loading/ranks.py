"""Which of how many training processes this is."""

from __future__ import annotations

import sys

from trainload.errors import UsageError


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, world_size): as given, else from torch.distributed where the program has initialised it, else (0, 1)."""
    if (rank is None) != (world_size is None):
        raise UsageError("give rank and world_size together, or neither")
    if rank is None or world_size is None:
        distributed = sys.modules.get("torch.distributed")  # looked up, never imported: torch belongs to the adapter
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return 0, 1
        return distributed.get_rank(), distributed.get_world_size()
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is not in 0 .. world_size - 1 = {world_size - 1}")
    return rank, world_size
