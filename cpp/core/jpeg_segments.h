// The marker segments of a JPEG before its entropy-coded data (ITU-T T.81, B.1.1), one after the other. Knows where
// they lie and not what they say; every read is bounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace trainload {

// [start, end): from the 0xFF before the marker to the byte after the segment, as its length says: it may be too short
// to hold that length (2 bytes) and may end beyond the picture.
struct JpegSegment {
    std::uint8_t marker;
    std::size_t start, end;
};

class JpegSegments {
  public:
    static constexpr std::uint8_t kStartOfImage = 0xD8, kStartOfScan = 0xDA;

    // most_stray: bytes between segments that are looked through for the next one, as libjpeg does; markers that have
    // no length are among them, but for another SOI, which is given as a segment of two bytes. 0: the first such byte
    // ends the walk, and every marker has a length. Fill bytes may always be there.
    explicit JpegSegments(Bytes jpeg, std::size_t most_stray = 0);

    // The next one, the first scan's header as the last; false: there is none.
    bool next(JpegSegment& segment);

  private:
    bool is_stray(std::size_t at) const;

    Bytes jpeg_;
    std::size_t most_stray_, stray_ = 0;
    std::size_t at_ = 2;
};

}  // namespace trainload
