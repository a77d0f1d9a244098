// Decodes a part of a JPEG by the way that costs least: by entry points where there are any or room for them, else by a
// splice where the restart markers allow one, else from the start. All three give the same rows and the same verdict.
// One object per thread; it keeps its buffers.
#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "core/entry_points.h"
#include "core/geometry.h"
#include "core/jpeg_header.h"
#include "core/jpeg_region.h"
#include "core/jpeg_splice.h"

namespace trainload {

class JpegDecoder {
  public:
    // As RegionDecoder::decode. store: keeps entry points, this picture's by `id`; nullptr: there are none.
    Verdict decode(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                   EntryPointStore* store = nullptr, std::uint64_t id = 0);

    // Why the last decode was not good.
    const char* message() const { return decoder_.message(); }

  private:
    bool decode_by_points(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                          EntryPointStore& store, std::uint64_t id, Verdict& verdict);

    RegionDecoder decoder_;
    JpegSplicer splicer_;
    EntryPoints points_;
};

}  // namespace trainload
