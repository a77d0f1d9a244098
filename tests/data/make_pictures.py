"""Writes pictures/ anew from the photographs in scikit-image 0.26.0 (README.md): make_pictures.py SKIMAGE/data

The bytes depend on Pillow's libjpeg, so the files are kept and this file says how they came about.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

ORIENTED = Image.Exif()
ORIENTED[0x0112] = 6

# name, class, width and height of the crop, mode, what the encoder is told
PICTURES: list[tuple[str, str, tuple[int, int], str, dict[str, Any]]] = [
    ("astronaut.png", "people", (375, 500), "RGB", {"quality": 90, "subsampling": "4:4:4"}),
    ("camera.png", "people", (500, 333), "L", {"quality": 85}),
    ("chelsea.png", "things", (451, 300), "RGB", {"quality": 85, "subsampling": "4:2:0"}),
    ("coffee.png", "things", (500, 375), "RGB", {"quality": 85, "subsampling": "4:2:2"}),
    ("rocket.jpg", "things", (427, 427), "RGB", {"quality": 80, "subsampling": "4:2:0", "progressive": True}),
    ("hubble_deep_field.jpg", "sky", (640, 480), "RGB", {"quality": 75, "subsampling": "4:2:0"}),
    ("retina.jpg", "sky", (333, 311), "RGB", {"quality": 90, "subsampling": "4:2:0", "exif": ORIENTED}),
    ("brick.png", "ground", (307, 251), "L", {"quality": 60, "restart_marker_rows": 1}),
    ("grass.png", "ground", (199, 301), "RGB", {"quality": 75, "subsampling": "4:4:4", "restart_marker_blocks": 5}),
    ("gravel.png", "ground", (256, 192), "RGB", {"quality": 95, "subsampling": "4:2:2"}),
]


def main(photographs: Path, out: Path) -> None:
    for name, label, (width, height), mode, options in PICTURES:
        whole = Image.open(photographs / name).convert(mode)
        left, top = (whole.width - width) // 2, (whole.height - height) // 2
        path = out / label / name.replace(Path(name).suffix, ".JPEG")
        path.parent.mkdir(parents=True, exist_ok=True)
        whole.crop((left, top, left + width, top + height)).save(path, "JPEG", **options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "pictures")
