// JPEGs made on the spot, by libjpeg: every way in which the core takes pictures, and some that it leaves to others.
#pragma once

#include <cstdint>
#include <vector>

namespace trainload {

using File = std::vector<std::uint8_t>;

// The first is a plain baseline picture. Always the same ones.
std::vector<File> made_jpegs();

}  // namespace trainload
