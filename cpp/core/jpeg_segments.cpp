#include "core/jpeg_segments.h"

namespace trainload {
namespace {

constexpr std::uint8_t kFill = 0xFF, kStuffed = 0x00, kTemporary = 0x01, kRestart = 0xD0;

}  // namespace

JpegSegments::JpegSegments(Bytes jpeg, std::size_t most_stray) : jpeg_(jpeg), most_stray_(most_stray) {
    if (jpeg.size() < 2 || jpeg[0] != 0xFF || jpeg[1] != kStartOfImage) at_ = jpeg.size();
}

bool JpegSegments::is_stray(std::size_t at) const {
    const std::uint8_t marker = jpeg_[at + 1];
    return jpeg_[at] != 0xFF || marker == kFill || marker == kStuffed || marker == kTemporary ||
           (marker >= kRestart && marker < kRestart + 8);
}

bool JpegSegments::next(JpegSegment& segment) {
    const bool skips = most_stray_ != 0;
    for (; at_ + 4 <= jpeg_.size(); ++at_) {
        if (skips ? stray_ >= most_stray_ : jpeg_[at_] != 0xFF) return false;
        if (skips ? !is_stray(at_) : jpeg_[at_ + 1] != kFill) {
            const std::uint8_t marker = jpeg_[at_ + 1];
            const bool is_bare = skips && marker == kStartOfImage;
            const auto length = static_cast<std::size_t>(jpeg_[at_ + 2] << 8 | jpeg_[at_ + 3]);
            segment = {marker, at_, at_ + 2 + (is_bare ? 0 : length)};
            if (is_bare) stray_ += 2;
            at_ = marker == kStartOfScan ? jpeg_.size() : segment.end;
            return true;
        }
        ++stray_;
    }
    return false;
}

}  // namespace trainload
