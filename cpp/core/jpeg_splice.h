// Cuts a small standard JPEG out of one that has restart markers (T.81 F.1.2.3): only the segments that a region needs.
// MCU rows above and below are left out (markers renumbered, height patched), segments beside are replaced by empty
// blocks, which decode in no time. One MCU around the region stays, for upsampling. Decodes nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "core/jpeg_header.h"

namespace trainload {

class JpegSplicer {
  public:
    struct Spliced {
        Bytes jpeg;         // lives until the next call
        JpegHeader header;  // of these bytes
        int first_row;      // its row 0 is this row of the original
    };

    // False where there is nothing to gain or the markers are not exactly as the standard has them.
    bool splice(Bytes jpeg, const JpegHeader& header, Box region, Spliced& spliced);

  private:
    bool find_segments(Bytes jpeg, const JpegHeader& header);
    void copy_tables(Bytes jpeg, JpegHeader& header, int height);
    bool make_empty_segment(const JpegHeader& header);

    std::vector<std::size_t> segments_;  // where each starts; one more: the marker after the last
    std::vector<std::uint8_t> bytes_, empty_;
};

}  // namespace trainload
