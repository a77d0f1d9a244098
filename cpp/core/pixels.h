// A JPEG or a part of it as RGB in memory of its own. For tools and tests; a pipeline streams the same rows without
// keeping them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "core/jpeg_region.h"

namespace trainload {

// RGB, rows packed.
struct Pixels {
    Size size;
    std::vector<std::uint8_t> bytes;
};

struct DecodeRequest {
    Box region;  // of the scaled picture; no width: all of it
    int denominator = 1;
    bool splices = true;  // whether restart markers may be used
};

// message: why the verdict is not good. Throws std::invalid_argument for a region outside of the picture.
Verdict decode_pixels(Bytes jpeg, const DecodeRequest& request, Pixels& pixels, std::string& message);

}  // namespace trainload
