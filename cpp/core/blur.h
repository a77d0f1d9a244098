// Filters in place: Gaussian blur with mirrored edges, and sharpness.
#pragma once

#include "core/picture.h"

namespace trainload {

// A Gaussian of standard deviation sigma (pixels), cut to an odd width and height and scaled to sum 1; at the edges the
// picture is mirrored without repeating the edge ("reflect"). Sums are single precision, rounded once at the end.
void gaussian_blur(PictureView picture, int kernel_width, int kernel_height, double sigma, OpScratch& scratch);

// Pillow's ImageEnhance.Sharpness, bit for bit: the picture mixed with itself smoothed by (1 1 1, 1 5 1, 1 1 1) / 13.
void adjust_sharpness(PictureView picture, float factor, OpScratch& scratch);

}  // namespace trainload
