#include "core/jpeg_decoder.h"

#include <algorithm>

namespace trainload {
namespace {

// The pixels of the whole picture that a region of the scaled one is made of.
Box unscaled(Box region, int denominator, const JpegHeader& header) {
    const int left = region.x * denominator, top = region.y * denominator;
    return {left, top, std::min(region.width * denominator, header.width - left),
            std::min(region.height * denominator, header.height - top)};
}

}  // namespace

Verdict JpegDecoder::decode(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                            EntryPointStore* store, std::uint64_t id) {
    Verdict verdict = Verdict::good;
    if (store != nullptr && decode_by_points(jpeg, header, region, denominator, sink, *store, id, verdict))
        return verdict;
    JpegSplicer::Spliced spliced;
    if (!splicer_.splice(jpeg, header, unscaled(region, denominator, header), spliced))
        return decoder_.decode(jpeg, header, region, denominator, sink);
    region.y -= spliced.first_row / denominator;
    return decoder_.decode(spliced.jpeg, spliced.header, region, denominator, sink);
}

// False where that does not help: decode another way.
bool JpegDecoder::decode_by_points(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                                   EntryPointStore& store, std::uint64_t id, Verdict& verdict) {
    const std::uint64_t fingerprint = fingerprint_of(jpeg);
    if (!store.load(id, fingerprint, points_)) return false;
    const std::size_t known = points_.size();
    if (!decoder_.decode_by_points(jpeg, header, region, denominator, sink, points_, verdict)) return false;
    if (points_.size() > known) store.save(id, fingerprint, points_);
    return true;
}

}  // namespace trainload
