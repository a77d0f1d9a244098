#include "tests/made_jpegs.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "core/libjpeg.h"

namespace trainload {
namespace {

enum class Coding { baseline, optimized, progressive, one_scan_per_component };

struct Kind {
    int width, height;
    int horizontal, vertical;   // sampling of the first component; the others have 1x1
    unsigned restart_interval;  // in MCUs, 0: no markers
    Coding coding = Coding::baseline;
    J_COLOR_SPACE colours = JCS_YCbCr;
    int quality = 80;
};

const Kind kKinds[] = {
    {160, 120, 2, 2, 0},
    {161, 123, 2, 2, 6},
    {97, 131, 1, 1, 0},
    {131, 97, 1, 1, 5},
    {150, 64, 2, 1, 10},
    {90, 70, 1, 2, 1},
    {120, 90, 4, 2, 0},
    {70, 50, 4, 1, 3},
    {75, 61, 1, 1, 4, Coding::baseline, JCS_GRAYSCALE},
    {64, 64, 1, 1, 0, Coding::baseline, JCS_RGB},
    {140, 100, 2, 2, 0, Coding::optimized, JCS_YCbCr, 30},
    {140, 100, 2, 2, 9, Coding::optimized, JCS_YCbCr, 97},
    {110, 80, 2, 2, 0, Coding::progressive},
    {60, 45, 1, 1, 7, Coding::progressive, JCS_GRAYSCALE},
    {80, 60, 2, 2, 0, Coding::one_scan_per_component},
    {50, 40, 1, 1, 0, Coding::baseline, JCS_CMYK},
    {1, 1, 2, 2, 0},
};

// Waves, edges and noise; every channel another.
std::uint8_t value_at(int x, int y, int channel) {
    const double waves = 60 * std::sin(x / (5.0 + channel)) + 50 * std::cos(y / 7.0 - channel);
    const std::uint32_t noise = (static_cast<std::uint32_t>(x * 73 + y * 151 + channel * 31) * 2654435761U) >> 28;
    return static_cast<std::uint8_t>(128 + waves * ((x / 9 + y / 11) % 2 == 0 ? 1 : 0.4) + noise);
}

void choose_coding(jpeg_compress_struct& encoder, const Kind& kind) {
    jpeg_set_colorspace(&encoder, kind.colours);
    jpeg_set_quality(&encoder, kind.quality, TRUE);
    for (int i = 0; i < encoder.num_components; ++i)
        encoder.comp_info[i].h_samp_factor = encoder.comp_info[i].v_samp_factor = 1;
    encoder.comp_info[0].h_samp_factor = kind.horizontal;
    encoder.comp_info[0].v_samp_factor = kind.vertical;
    encoder.restart_interval = kind.restart_interval;
    encoder.optimize_coding = kind.coding == Coding::optimized;
    if (kind.coding == Coding::progressive) jpeg_simple_progression(&encoder);
    static const jpeg_scan_info one_each[] = {
        {1, {0}, 0, 63, 0, 0},
        {1, {1}, 0, 63, 0, 0},
        {1, {2}, 0, 63, 0, 0},
    };
    if (kind.coding != Coding::one_scan_per_component) return;
    encoder.scan_info = one_each;
    encoder.num_scans = 3;
}

File made(const Kind& kind) {
    jpeg_compress_struct encoder{};
    jpeg_error_mgr errors{};
    encoder.err = jpeg_std_error(&errors);  // an error ends the program
    jpeg_create_compress(&encoder);
    unsigned char* bytes = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&encoder, &bytes, &size);
    encoder.image_width = static_cast<JDIMENSION>(kind.width);
    encoder.image_height = static_cast<JDIMENSION>(kind.height);
    encoder.in_color_space = kind.colours == JCS_YCbCr ? JCS_RGB : kind.colours;
    encoder.input_components = kind.colours == JCS_GRAYSCALE ? 1 : kind.colours == JCS_CMYK ? 4 : 3;
    jpeg_set_defaults(&encoder);
    choose_coding(encoder, kind);
    jpeg_start_compress(&encoder, TRUE);
    File row(static_cast<std::size_t>(kind.width * encoder.input_components));
    for (int y = 0; y < kind.height; ++y) {
        for (std::size_t i = 0; i < row.size(); ++i)
            row[i] = value_at(static_cast<int>(i) / encoder.input_components, y,
                              static_cast<int>(i) % encoder.input_components);
        JSAMPROW start = row.data();
        jpeg_write_scanlines(&encoder, &start, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    File file(bytes, bytes + size);
    std::free(bytes);
    return file;
}

}  // namespace

std::vector<File> made_jpegs() {
    std::vector<File> files;
    for (const Kind& kind : kKinds) files.push_back(made(kind));
    return files;
}

}  // namespace trainload
