"""What counts as a picture of a training set: the one list that packer, folder reader, loader and verify share.

A file is listed by the ending of its name; what it really is, its content says. Adding an ending renumbers the samples
of folders that hold such files.
"""

from __future__ import annotations

# In any case: README.JPG is a picture.
PICTURE_ENDINGS = (
    ".jpeg",
    ".jpg",
    ".jpe",
    ".jfif",
    ".png",
    ".webp",
    ".bmp",
    ".gif",
    ".tif",
    ".tiff",
    ".ppm",
    ".pgm",
    ".avif",
)
REFERENCE_ENDINGS = (".jpeg",)  # the genuine exporter looks at nothing else

# By Pillow's names; it is asked for no others, since some of its plugins start programs.
PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "AVIF")
