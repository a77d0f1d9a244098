// What a picture claims in its header, held against what is known before anything is allocated: its own bytes and the
// largest picture that its set may hold. Knows no pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/bytes.h"
#include "core/jpeg_header.h"
#include "core/jpeg_region.h"

namespace trainload {

// Reads the header. good: nothing speaks against decoding; corrupt, other_decoder: `message` says why not.
// Huffman-coded data have at least two bits for each 8x8 block of a sequential picture and one for each of a
// progressive one (T.81 F.1.2, G.1.2).
Verdict judge_header(Bytes jpeg, std::int64_t most_pixels, JpegHeader& header, std::string& message);

// Bytes of coefficients that must all be in memory at once: of a progressive picture, and of one whose components come
// in scans of their own. 0 for any other.
std::size_t coefficient_bytes(const JpegHeader& header);

}  // namespace trainload
