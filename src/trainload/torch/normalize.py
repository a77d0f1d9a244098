"""Normalize as the last step on the device, so that pictures travel there as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trainload.errors import UsageError
from trainload.images.ops.operations import Normalize
from trainload.images.ops.protocols import Operation


def split_normalize(ops: Sequence[Operation]) -> tuple[list[Any], Normalize]:
    """The operations before Normalize, which must be the last one, and Normalize. Raises UsageError."""
    if not ops or not isinstance(ops[-1], Normalize):
        raise UsageError("normalize_on_device needs Normalize as the last of ops")
    return list(ops[:-1]), ops[-1]


class DeviceNormalize:
    """(value / 255 - mean) / std of uint8 pictures [n, h, w, c] or, channels first, [n, c, h, w], in `dtype`.

    One multiplication and one addition in float32 per value, then rounded to `dtype`.
    """

    def __init__(self, normalize: Normalize, dtype: torch.dtype, device: torch.device, *, channels_last: bool) -> None:
        shape = (-1,) if channels_last else (-1, 1, 1)
        mean = torch.tensor(normalize.mean, dtype=torch.float32, device=device).reshape(shape)
        std = torch.tensor(normalize.std, dtype=torch.float32, device=device).reshape(shape)
        self.dtype = dtype
        self._scale = 1.0 / (255.0 * std)
        self._shift = -mean / std

    def __call__(self, pictures: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The normalised pictures, in `out` where it is given."""
        values = torch.addcmul(self._shift, pictures.to(torch.float32), self._scale)
        return values.to(self.dtype) if out is None else out.copy_(values)
