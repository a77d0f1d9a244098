"""What docs/cluster.md hands to schedulers does what it says, one job after the other in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trainload as tl
from docs_pages import blocks
from picture_folders import class_folders

pytestmark = pytest.mark.slow  # a server, or Ray


def block_with(part: str) -> str:
    [text] = [text for _, language, text in blocks("docs/cluster.md") if language == "text" and part in text]
    return text


@pytest.mark.parametrize("scheduler", ["Slurm", "Kubernetes"])
def test_the_jobs_of_a_scheduler_pack_the_set(tmp_path: Path, scheduler: str) -> None:
    source, out = class_folders(tmp_path / "src"), tmp_path / "packed" / "train.dts"
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PLAN": f"{out}.plan"}

    def run(script: str, **variables: str) -> None:
        subprocess.run(["sh", "-ec", script], check=True, env=environment | variables, capture_output=True)

    first, *_, last = block_with("sbatch --dependency").splitlines()
    start = first.replace("/data/imagenet/train", str(source)).replace("/data/packed/train.dts", str(out))
    run(start.replace("--volumes 256", "--volumes 2"))
    for n in ("1", "0"):
        if scheduler == "Slurm":
            run(block_with("#SBATCH"), SLURM_ARRAY_TASK_ID=n, SLURM_CPUS_PER_TASK="1")
        else:
            [command] = re.findall(r'command: \[sh, -c, "(.*)"\]', block_with("kind: Job"))
            run(command.replace("/data/packed/train.dts", str(out)), JOB_COMPLETION_INDEX=n)
    [wrapped] = re.findall(r'--wrap "(.*)"', last)
    run(wrapped)
    tl.pack_images(source, tmp_path / "alone" / "train.dts", level=3, volumes=2, jobs=1)
    alone = {path.name: path.read_bytes() for path in (tmp_path / "alone").glob("*.dts")}
    assert {path.name: path.read_bytes() for path in out.parent.glob("*.dts")} == alone and len(alone) == 2
