#!/bin/sh
# Checks and times the torch adapter on a machine with an NVIDIA GPU: tests, then device_check.py. Under 5 minutes.
# usage: benchmarks/device_check.sh [CLASS_FOLDERS]      writes bench-out/device_check.json; needs no network if .venv
# (or the machine's Python) already has torch with CUDA, nanobind, scikit-build-core and libjpeg-turbo's headers.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if [ -x .venv/bin/python ] && .venv/bin/python -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    python=.venv/bin/python
fi
if ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "device_check: $python has no torch that sees a CUDA device: pip install torch, or name another PYTHON" >&2
    exit 2
fi
"$python" -c 'import trainload' 2>/dev/null || "$python" -m pip install -q --no-build-isolation .
if "$python" -c 'import pytest, hypothesis, pytest_timeout' 2>/dev/null; then
    "$python" -m pytest tests/images/test_torch_loader.py
fi
exec "$python" benchmarks/device_check.py ${1:+--data "$1"}
