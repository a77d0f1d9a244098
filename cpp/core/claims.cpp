#include "core/claims.h"

#include <algorithm>

namespace trainload {
namespace {

constexpr std::int64_t kBlockBytes = 64 * 2;

bool is_progressive(const JpegHeader& header) {
    return header.frame_marker == 0xC2;
}

// Blocks of the component that has the most, without those that only fill up an MCU.
std::int64_t most_blocks(const JpegHeader& header) {
    int widest = 1, highest = 1;
    for (int i = 0; i < header.component_count; ++i) {
        widest = std::max<int>(widest, header.components[i].horizontal);
        highest = std::max<int>(highest, header.components[i].vertical);
    }
    const auto blocks = [](std::int64_t side, int part, int whole) {
        return (side * part + 8 * whole - 1) / (8 * whole);
    };
    std::int64_t most = 0;
    for (int i = 0; i < header.component_count; ++i)
        most = std::max(most, blocks(header.width, header.components[i].horizontal, widest) *
                                  blocks(header.height, header.components[i].vertical, highest));
    return most;
}

// Why a JPEG of this many bytes is not decoded; empty where nothing speaks against it.
std::string refusal_of(const JpegHeader& header, std::size_t size_bytes, std::int64_t most_pixels) {
    const auto claim = [&] {
        return "its header claims " + std::to_string(header.width) + "x" + std::to_string(header.height) + " pixels, ";
    };
    if (static_cast<std::int64_t>(header.width) * header.height > most_pixels)
        return claim() + "more than any picture of this set may have (" + std::to_string(most_pixels) + ")";
    const bool is_known = header.is_huffman_sequential() || is_progressive(header);
    const std::int64_t bits = most_blocks(header) * (is_progressive(header) ? 1 : 2);
    if (is_known && bits / 8 > static_cast<std::int64_t>(size_bytes))
        return claim() + "which " + std::to_string(size_bytes) + " bytes cannot code";
    return {};
}

}  // namespace

Verdict judge_header(Bytes jpeg, std::int64_t most_pixels, JpegHeader& header, std::string& message) {
    const bool is_jpeg = parse_jpeg_header(jpeg, header);
    message = is_jpeg ? refusal_of(header, jpeg.size(), most_pixels) : std::string();
    if (!message.empty()) return Verdict::corrupt;
    if (is_jpeg && is_decodable(header)) return Verdict::good;
    message = "not an 8-bit gray or three-colour JPEG";
    return Verdict::other_decoder;
}

std::size_t coefficient_bytes(const JpegHeader& header) {
    if (!is_progressive(header) && header.scan_component_count == header.component_count) return 0;
    std::int64_t blocks_per_mcu = 0;
    for (int i = 0; i < header.component_count; ++i)
        blocks_per_mcu +=
            header.component_count == 1 ? 1 : header.components[i].horizontal * header.components[i].vertical;
    return static_cast<std::size_t>(std::int64_t{header.mcus_per_row()} * header.mcu_rows() * blocks_per_mcu *
                                    kBlockBytes);
}

}  // namespace trainload
