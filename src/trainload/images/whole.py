"""One whole picture, decoded as it is: what verify and extract ask for. No operations, no random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload import _core
from trainload.images.decode import decode_by_pillow


def decode_whole(encoded: memoryview) -> NDArray[np.uint8]:
    """The picture in 8-bit RGB, as the loader has it: uint8 [h, w, 3]; by the core where it can, else by Pillow.

    Raises ValueError with the reason for a picture that neither decodes whole.
    """
    try:
        return _core.decode_jpeg(np.frombuffer(encoded, np.uint8))
    except ValueError:
        return decode_by_pillow(encoded)
