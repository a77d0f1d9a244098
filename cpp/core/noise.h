// Normal numbers added to a picture, the same bits on every machine: integers and single precision, each operation
// rounded by itself. The oracle in numpy is tests/helpers/noise_oracle.py: same operations in the same order.
#pragma once

#include "core/philox.h"
#include "core/picture.h"

namespace trainload {

// Every byte x becomes x + (255 mean + 255 sigma n), rounded to nearest (ties to even) and clipped to 0 .. 255; n: a
// normal number of its own. mean, sigma: in units of the full range.
//
// With B = ceil(3 width / 4), block b of row y is Philox 4x32-10 of (y B + b, 0, 0, 0) under the key: words w0 .. w3,
// whose upper 24 bits are u0 .. u3 in [0, 1). Byte k B + b of the row takes the block's k-th number: r cos(2 pi u1), r
// sin(2 pi u1) with r = sqrt(-2 log(1 - u0)), and the same two of u2, u3 (Box and Muller).
void add_gaussian_noise(PictureView picture, double mean, double sigma, PhiloxKey key, OpScratch& scratch);

}  // namespace trainload
