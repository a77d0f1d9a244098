// Rotation, shear and translation in place, bit-equal to Pillow 13's Image.rotate and Image.transform(AFFINE).
#pragma once

#include <array>
#include <optional>

#include "core/picture.h"

namespace trainload {

enum class Interpolation : std::uint8_t { nearest, bilinear };

using Rgb = std::array<std::uint8_t, 3>;

// What lies outside the picture and how to read between pixels.
struct Sampling {
    Interpolation interpolation;
    Rgb fill;
};

// From output to input, in pixels whose centres lie at .5: x_in = m0 x + m1 y + m2, y_in = m3 x + m4 y + m5.
using AffineMatrix = std::array<double, 6>;

struct Point {
    double x, y;
};

void transform(PictureView picture, const AffineMatrix& matrix, Sampling sampling, OpScratch& scratch);

// Counter-clockwise, about the centre (none: the middle of the picture); the size stays.
void rotate(PictureView picture, double degrees, std::optional<Point> center, Sampling sampling, OpScratch& scratch);

void flip_horizontally(PictureView picture);
void flip_vertically(PictureView picture);

}  // namespace trainload
