// What a picture claims in its header, held against what is known before anything is allocated: its own bytes and the
// largest picture that its set may hold. Knows no pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/jpeg_header.h"

namespace trainload {

// Why a JPEG of this many bytes is not decoded; empty where nothing speaks against it. Huffman-coded data have at least
// two bits for each 8x8 block of a sequential picture and one for each of a progressive one (T.81 F.1.2, G.1.2).
std::string refusal_of(const JpegHeader& header, std::size_t size_bytes, std::int64_t most_pixels);

// Bytes of coefficients that must all be in memory at once: of a progressive picture, and of one whose components come
// in scans of their own. 0 for any other.
std::size_t coefficient_bytes(const JpegHeader& header);

}  // namespace trainload
