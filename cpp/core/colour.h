// Colour operations in place (hue stands in hue.cpp), bit-equal to Pillow 13: ImageEnhance (brightness, contrast,
// saturation), ImageOps (invert, posterize, solarize, autocontrast, equalize), convert("L") and the 8-bit HSV of
// convert("HSV").
#pragma once

#include "core/picture.h"

namespace trainload {

// Black, gray or gray-scale picture mixed with the picture: factor 0 gives the former, 1 changes nothing, above 1 goes
// beyond. Sums are single precision, cut towards zero and clipped, as in Pillow's blend.
void adjust_brightness(PictureView picture, float factor);
void adjust_contrast(PictureView picture, float factor);
void adjust_saturation(PictureView picture, float factor, OpScratch& scratch);

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

// Pillow's blend: row[i] becomes from[i] + factor * (row[i] - from[i]), cut towards zero and clipped.
void blend_row(const std::uint8_t* from, float factor, std::size_t count, std::uint8_t* row);

}  // namespace trainload
