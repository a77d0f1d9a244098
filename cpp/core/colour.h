// Colour operations in place, bit-equal to Pillow 13: ImageEnhance (brightness, contrast, saturation), ImageOps
// (invert, posterize, solarize, autocontrast, equalize), convert("L") and the 8-bit HSV of convert("HSV").
#pragma once

#include "core/picture.h"

namespace trainload {

// Black, gray or gray-scale picture mixed with the picture: factor 0 gives the former, 1 changes nothing, above 1 goes
// beyond. Sums are single precision, cut towards zero and clipped, as in Pillow's blend.
void adjust_brightness(PictureView picture, float factor);
void adjust_contrast(PictureView picture, float factor);
void adjust_saturation(PictureView picture, float factor);

// shift: part of the colour circle, -0.5 .. 0.5; hue has 256 steps, of which int(shift * 255) are taken.
void adjust_hue(PictureView picture, double shift);

void grayscale(PictureView picture);
void invert(PictureView picture);
void posterize(PictureView picture, int bits);  // the upper 1 .. 8 bits stay
void solarize(PictureView picture, double threshold);
void autocontrast(PictureView picture);
void equalize(PictureView picture);

// Luma of Pillow's convert("L"): ITU-R 601-2 in 16-bit fixed point.
inline std::uint8_t luma(const std::uint8_t* rgb) {
    return static_cast<std::uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

// Pillow's blend of two values of one channel.
inline std::uint8_t blend(int from, int to, float factor) {
    const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : static_cast<std::uint8_t>(value);
}

}  // namespace trainload
