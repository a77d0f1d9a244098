#!/bin/bash
# Installs the contenders of benchmarks/images.py, each family in its own environment below $1 (default .peers).
# Takes minutes and about 9 GB. Debian: OpenCV's and FFmpeg's libraries are installed by apt-get.
set -euo pipefail
peers=$(realpath -m "${1:-.peers}")
mkdir -p "$peers"
DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    libopencv-dev libturbojpeg0-dev pkg-config g++ libavdevice59 libavfilter8 >/dev/null
python3 -m venv "$peers/loaders"
"$peers/loaders/bin/pip" install -q -U pip
"$peers/loaders/bin/pip" install -q torch==2.14.1 torchvision==0.29.1
"$peers/loaders/bin/pip" install -q numba opencv-python-headless pillow webdataset litdata mosaicml-streaming \
    spdl-io spdl-core turboloader ffcv
python3 -m venv "$peers/dali"
"$peers/dali/bin/pip" install -q -U pip
"$peers/dali/bin/pip" install -q nvidia-dali-cuda120 pillow
