"""Upper bounds of numbers that come from files. Above one of these a file is refused before anything is allocated."""

from __future__ import annotations

MAX_SAMPLES = 1 << 31  # samples in one set
MAX_BLOCKS = 1 << 24  # blocks in one set: 256 TiB of 16 MB blocks
MAX_CLASSES = 1 << 20
MAX_VOLUMES = 1 << 16
MAX_SECTION_BYTES = 1 << 30  # one section of either format, stored or unpacked
MAX_SECTIONS = 1 << 12
