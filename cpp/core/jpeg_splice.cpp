#include "core/jpeg_splice.h"

#include <algorithm>
#include <cstring>

#include "core/jpeg_segments.h"

namespace trainload {
namespace {

constexpr std::uint8_t kRestart = 0xD0, kEndOfImage = 0xD9, kApp0 = 0xE0, kApp14 = 0xEE, kApp15 = 0xEF, kComment = 0xFE;

constexpr std::size_t kFastBytes = 512 * 10;  // the decoder's worst case for one MCU

bool is_spliceable(const JpegHeader& header) {
    if (header.restart_interval == 0 || !header.is_huffman_sequential()) return false;
    if (header.scan_component_count != header.component_count || !header.scan_in_frame_order) return false;
    return header.component_count == 3 ||
           (header.component_count == 1 && header.components[0].horizontal == 1 && header.components[0].vertical == 1);
}

// MCUs in rows and columns; ends are exclusive.
struct McuBox {
    int left, top, right, bottom;

    // Whether the run of MCUs [first, end) in scan order touches this box.
    bool touches(std::int64_t first, std::int64_t end, int per_row) const {
        for (std::int64_t row = std::max<std::int64_t>(first / per_row, top); row < bottom; ++row) {
            const std::int64_t row_start = row * per_row;
            if (row_start >= end) return false;
            if (std::max(first, row_start + left) < std::min(end, row_start + right)) return true;
        }
        return false;
    }
};

McuBox mcus_of(Box region, const JpegHeader& header) {
    const int width = header.mcu_width(), height = header.mcu_height();
    return {std::max(0, region.x / width - 1), std::max(0, region.y / height - 1),
            std::min(header.mcus_per_row(), (region.x + region.width - 1) / width + 2),
            std::min(header.mcu_rows(), (region.y + region.height - 1) / height + 2)};
}

class BitWriter {
  public:
    explicit BitWriter(std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}

    void put(JpegHeader::Code code) {
        bits_ = bits_ << code.length | code.bits;
        for (count_ += code.length; count_ >= 8; count_ -= 8) byte(static_cast<std::uint8_t>(bits_ >> (count_ - 8)));
    }

    void fill_with_ones() {
        if (count_ > 0) byte(static_cast<std::uint8_t>(bits_ << (8 - count_) | ((1U << (8 - count_)) - 1)));
    }

  private:
    void byte(std::uint8_t value) {
        bytes_.push_back(value);
        if (value == 0xFF) bytes_.push_back(0);
    }

    std::vector<std::uint8_t>& bytes_;
    std::uint32_t bits_ = 0;
    int count_ = 0;
};

}  // namespace

bool JpegSplicer::splice(Bytes jpeg, const JpegHeader& header, Box region, Spliced& spliced) {
    if (!is_spliceable(header)) return false;
    const McuBox needed = mcus_of(region, header);
    const std::int64_t per_row = header.mcus_per_row(), interval = header.restart_interval;
    int top = needed.top;
    while (top * per_row % interval != 0) --top;  // a row that starts with a segment
    const bool has_columns_to_skip = interval < per_row && (needed.left > 0 || needed.right < per_row);
    const bool has_rows_to_skip = top > 0 || needed.bottom < header.mcu_rows();
    if ((!has_rows_to_skip && !has_columns_to_skip) || !find_segments(jpeg, header)) return false;
    const bool blanks = has_columns_to_skip && make_empty_segment(header);

    const int first_row = top * header.mcu_height();
    const int height = std::min(header.height, needed.bottom * header.mcu_height()) - first_row;
    spliced.header = header;
    copy_tables(jpeg, spliced.header, height);
    const std::int64_t total = per_row * header.mcu_rows();
    const std::int64_t first = top * per_row / interval, end = (needed.bottom * per_row + interval - 1) / interval;
    for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t mcu_end = std::min(total, (i + 1) * interval);
        const bool whole = (i + 1) * interval <= total;
        if (blanks && whole && !needed.touches(i * interval, mcu_end, static_cast<int>(per_row))) {
            bytes_.insert(bytes_.end(), empty_.begin(), empty_.end());
        } else {
            // A segment ends before the two bytes of its marker.
            bytes_.insert(bytes_.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(segments_[i]),
                          jpeg.begin() + static_cast<std::ptrdiff_t>(segments_[i + 1] - 2));
        }
        const bool last = i + 1 == end;
        const auto marker = static_cast<std::uint8_t>(last ? kEndOfImage : kRestart + ((i - first) & 7));
        bytes_.push_back(0xFF);
        bytes_.push_back(marker);
    }
    // libjpeg decodes its fast way only while that many bytes are left; the end marker stops it before them.
    bytes_.insert(bytes_.end(), kFastBytes, 0);
    spliced.jpeg = bytes_;
    spliced.first_row = first_row;
    return true;
}

// Every marker up to the end of the picture must be the expected one: then each segment decodes on its own.
bool JpegSplicer::find_segments(Bytes jpeg, const JpegHeader& header) {
    const std::int64_t mcus = static_cast<std::int64_t>(header.mcus_per_row()) * header.mcu_rows();
    const std::int64_t expected = (mcus + header.restart_interval - 1) / header.restart_interval;
    segments_.clear();
    segments_.push_back(header.scan_offset);
    const std::uint8_t* const start = jpeg.data();
    const std::uint8_t* const end = start + jpeg.size();
    const std::uint8_t* at = start + header.scan_offset;
    while (at < end) {
        at = static_cast<const std::uint8_t*>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at)));
        if (at == nullptr || end - at < 2) return false;
        const std::uint8_t marker = at[1];
        at += 2;
        if (marker == 0) continue;
        segments_.push_back(static_cast<std::size_t>(at - start));
        const auto found = static_cast<std::int64_t>(segments_.size()) - 1;
        if (marker == kEndOfImage) return found == expected;
        if (found >= expected || marker != kRestart + ((found - 1) & 7)) return false;
    }
    return false;
}

// Everything before the entropy-coded data but what says nothing about the pixels (EXIF, ICC, comments).
void JpegSplicer::copy_tables(Bytes jpeg, JpegHeader& header, int height) {
    bytes_.assign({0xFF, JpegSegments::kStartOfImage});
    std::size_t height_offset = header.height_offset;
    JpegSegments segments(jpeg);
    for (JpegSegment segment; segments.next(segment);) {  // as parse_jpeg_header has walked: all of them are whole
        const std::uint8_t marker = segment.marker;
        const bool kept =
            (marker < kApp0 || marker > kApp15 || marker == kApp0 || marker == kApp14) && marker != kComment;
        if (!kept) continue;
        if (header.height_offset >= segment.start && header.height_offset < segment.end)
            height_offset = bytes_.size() + (header.height_offset - segment.start);
        bytes_.insert(bytes_.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(segment.start),
                      jpeg.begin() + static_cast<std::ptrdiff_t>(segment.end));
    }
    bytes_[height_offset] = static_cast<std::uint8_t>(height >> 8);
    bytes_[height_offset + 1] = static_cast<std::uint8_t>(height);
    header.height = height;
    header.height_offset = height_offset;
    header.scan_offset = bytes_.size();
    header.ends_with_eoi = true;
}

bool JpegSplicer::make_empty_segment(const JpegHeader& header) {
    empty_.clear();
    BitWriter writer(empty_);
    for (int mcu = 0; mcu < header.restart_interval; ++mcu) {
        for (int i = 0; i < header.component_count; ++i) {
            const JpegComponent& component = header.components[i];
            const JpegHeader::Code zero = header.dc_zero[component.dc_table], end = header.ac_end[component.ac_table];
            if (zero.length == 0 || end.length == 0) return false;
            const int blocks = header.component_count == 1 ? 1 : component.horizontal * component.vertical;
            for (int block = 0; block < blocks; ++block) {
                writer.put(zero);
                writer.put(end);
            }
        }
    }
    writer.fill_with_ones();
    return true;
}

}  // namespace trainload
