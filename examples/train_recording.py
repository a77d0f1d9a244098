"""Learn how fast a car turns from its steering wheel and its speed: aligned frames of a recording to plain torch.

usage: python examples/train_recording.py DRIVE.hfr     a segment of comma2k19, imported (docs/walkthrough.md)

The wheel and the speed come from the CAN bus, stamped by the host when they arrived; the gyroscope stamps itself. Two
clocks may meet only where the caller says so: allow_host=True, and `pairs.mixed_clocks` tells it later.
"""

from __future__ import annotations

import sys

import torch

import trainload as tl
from trainload.torch import AlignedDataset, HyperframeLoader, TensorBatch

WHEEL, SPEED, GYRO = "can/steering_angle", "can/speed", "imu/gyro"
EPOCHS = 20
SCALE = torch.tensor([10.0, 30.0])  # degrees, m/s: so that inputs are about 1


def main(path: str) -> None:
    with tl.open_recording(path) as drive:
        pairs = tl.align(
            drive,
            to="global_pose",
            using={
                WHEEL: tl.Interpolate(max_gap="50ms"),
                SPEED: tl.Nearest(max="20ms"),
                GYRO: tl.Interpolate(max_gap="25ms"),
            },
            allow_host=True,
        )
        dataset = AlignedDataset(pairs, max_residual="20ms")
        print(f"{len(dataset)} of {len(pairs)} times have every stream within 20 ms")
        train(HyperframeLoader(dataset, batch_size=32, seed=0, shuffle="full"))


def train(loader: HyperframeLoader) -> None:
    torch.set_num_threads(1)  # the model is small
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        error, rates = 0.0, []
        for batch in loader:
            inputs, rate = sample_of(batch)
            loss = torch.nn.functional.mse_loss(model(inputs), rate)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            error += loss.item() * len(rate)
            rates.append(rate)
        turned = torch.cat(rates)
        if epoch in (0, EPOCHS - 1):
            rms, spread = (error / len(turned)) ** 0.5, float(turned.std())
            print(f"epoch {epoch:2}: error {rms:.2f} degrees per second; always the mean: {spread:.2f}")


def sample_of(batch: TensorBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """(wheel and speed float32 [B, 2], turning about the vertical in degrees per second [B, 1])."""
    wheel, speed, gyro = (torch.as_tensor(batch.values[name]).float() for name in (WHEEL, SPEED, GYRO))
    return torch.cat([wheel.reshape(-1, 1), speed.reshape(-1, 1)], 1) / SCALE, torch.rad2deg(gyro[:, 2:3])


if __name__ == "__main__":
    main(sys.argv[1])
