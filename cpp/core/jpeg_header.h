// What stands before the pixels of a JPEG (ITU-T T.81, annex B): size, sampling, restart interval, where the scan lies.
// Reads markers only; decodes nothing and allocates nothing. Every read is bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace trainload {

struct JpegComponent {
    std::uint8_t id;
    std::uint8_t horizontal;  // sampling factors, 1 to 4
    std::uint8_t vertical;
    std::uint8_t dc_table;  // Huffman tables of the first scan
    std::uint8_t ac_table;
};

struct JpegHeader {
    int width, height;
    int precision;                            // bits per sample
    std::uint8_t frame_marker;                // 0xC0 baseline, 0xC1 extended, 0xC2 progressive, ...
    int component_count;                      // of the frame
    int scan_component_count;                 // of the first scan
    std::array<JpegComponent, 4> components;  // the first scan's order is the frame's order wherever it matters here
    int restart_interval;                     // MCUs between restart markers; 0: none
    std::size_t height_offset;                // where the frame header keeps its height (2 bytes)
    std::size_t scan_offset;                  // first byte of entropy-coded data
    bool ends_with_eoi;                       // the last two bytes are FF D9
    bool scan_in_frame_order;
    // Codes of "no difference" and "end of block" of each table: enough to write an empty block. Length 0: not there.
    struct Code {
        std::uint16_t bits;
        std::uint8_t length;
    };
    std::array<Code, 4> dc_zero, ac_end;

    bool is_huffman_sequential() const { return frame_marker == 0xC0 || frame_marker == 0xC1; }
    int mcu_width() const { return 8 * max_horizontal(); }
    int mcu_height() const { return 8 * max_vertical(); }
    int mcus_per_row() const { return (width + mcu_width() - 1) / mcu_width(); }
    int mcu_rows() const { return (height + mcu_height() - 1) / mcu_height(); }

  private:
    int max_horizontal() const;
    int max_vertical() const;
};

// Reads up to the first scan. False where the bytes are no JPEG that this walk understands (`header` is then void).
bool parse_jpeg_header(Bytes jpeg, JpegHeader& header);

}  // namespace trainload
