#include "core/jpeg_header.h"

#include <algorithm>

#include "core/jpeg_segments.h"

namespace trainload {
namespace {

constexpr std::uint8_t kEndOfImage = 0xD9, kHuffmanTables = 0xC4, kRestartInterval = 0xDD, kArithmeticTables = 0xCC,
                       kExtension = 0xC8;

bool is_frame_marker(std::uint8_t marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != kHuffmanTables && marker != kArithmeticTables &&
           marker != kExtension;
}

bool read_frame(ByteCursor segment, JpegHeader& header) {
    header.precision = segment.u8();
    header.height_offset = segment.offset();
    header.height = segment.u16_big();
    header.width = segment.u16_big();
    header.component_count = segment.u8();
    if (!segment.ok() || header.width == 0 || header.height == 0) return false;
    if (header.component_count < 1 || header.component_count > 4) return false;
    for (int i = 0; i < header.component_count; ++i) {
        JpegComponent& component = header.components[i];
        component = {};
        component.id = segment.u8();
        const std::uint8_t sampling = segment.u8();
        component.horizontal = sampling >> 4;
        component.vertical = sampling & 15;
        segment.skip(1);
        if (component.horizontal < 1 || component.horizontal > 4 || component.vertical < 1 || component.vertical > 4)
            return false;
    }
    return segment.ok();
}

// Canonical codes (T.81 C.2): the code of the wanted symbol, if the table has it.
JpegHeader::Code find_code(const std::array<std::uint8_t, 17>& counts, ByteCursor symbols, std::uint8_t wanted) {
    unsigned code = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
        for (int i = 0; i < counts[length]; ++i, ++code) {
            if (symbols.u8() == wanted && symbols.ok())
                return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(length)};
        }
    }
    return {0, 0};
}

bool read_huffman_tables(ByteCursor segment, JpegHeader& header) {
    while (segment.left() > 0) {
        const std::uint8_t target = segment.u8();
        std::array<std::uint8_t, 17> counts{};
        std::size_t total = 0;
        for (int length = 1; length <= 16; ++length) total += counts[length] = segment.u8();
        const ByteCursor symbols = segment.sub(total);
        if (!segment.ok() || total > 256 || (target & 15) > 3) return false;
        auto& codes = target >> 4 ? header.ac_end : header.dc_zero;
        codes[target & 15] = find_code(counts, symbols, 0);
    }
    return segment.ok();
}

bool read_scan(ByteCursor segment, JpegHeader& header) {
    header.scan_component_count = segment.u8();
    if (header.scan_component_count < 1 || header.scan_component_count > header.component_count) return false;
    header.scan_in_frame_order = true;
    for (int i = 0; i < header.scan_component_count; ++i) {
        const std::uint8_t id = segment.u8();
        const std::uint8_t tables = segment.u8();
        JpegComponent& component = header.components[i];
        header.scan_in_frame_order &= component.id == id;
        component.dc_table = tables >> 4 & 3;
        component.ac_table = tables & 3;
    }
    return segment.ok();
}

}  // namespace

int JpegHeader::max_horizontal() const {
    int most = 1;
    if (component_count == 1) return most;  // a single component is never interleaved: its MCU is one block
    for (int i = 0; i < component_count; ++i) most = std::max<int>(most, components[i].horizontal);
    return most;
}

int JpegHeader::max_vertical() const {
    int most = 1;
    if (component_count == 1) return most;
    for (int i = 0; i < component_count; ++i) most = std::max<int>(most, components[i].vertical);
    return most;
}

bool parse_jpeg_header(Bytes jpeg, JpegHeader& header) {
    header = {};
    const std::size_t size = jpeg.size();
    header.ends_with_eoi = size >= 4 && jpeg[size - 2] == 0xFF && jpeg[size - 1] == kEndOfImage;
    JpegSegments segments(jpeg);
    for (JpegSegment segment; segments.next(segment);) {
        if (segment.end < segment.start + 4 || segment.end > size) return false;
        const ByteCursor body(jpeg.first(segment.end), segment.start + 4);
        if (is_frame_marker(segment.marker)) {
            if (header.frame_marker != 0 || !read_frame(body, header)) return false;
            header.frame_marker = segment.marker;
        } else if (segment.marker == kHuffmanTables) {
            if (!read_huffman_tables(body, header)) return false;
        } else if (segment.marker == kRestartInterval) {
            ByteCursor interval = body;
            header.restart_interval = interval.u16_big();
            if (!interval.ok()) return false;
        } else if (segment.marker == JpegSegments::kStartOfScan) {
            header.scan_offset = segment.end;
            return header.frame_marker != 0 && read_scan(body, header);
        }
    }
    return false;
}

}  // namespace trainload
