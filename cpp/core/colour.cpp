#include "core/colour.h"

#include <algorithm>
#include <array>

#include "core/clones.h"

namespace trainload {

namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

template <typename Change>
void for_each_pixel(PictureView picture, Change change) {
    for (int y = 0; y < picture.height; ++y) {
        std::uint8_t* pixel = picture.row(y);
        for (const std::uint8_t* end = pixel + picture.row_bytes(); pixel != end; pixel += 3) {
            change(pixel);
        }
    }
}

template <typename Formula>
Table make_table(Formula formula) {
    Table table;
    for (int value = 0; value < 256; ++value) {
        table[static_cast<std::size_t>(value)] = formula(value);
    }
    return table;
}

void apply_tables(PictureView picture, const Table& red, const Table& green, const Table& blue) {
    for_each_pixel(picture, [&](std::uint8_t* pixel) {
        pixel[0] = red[pixel[0]];
        pixel[1] = green[pixel[1]];
        pixel[2] = blue[pixel[2]];
    });
}

void apply_table(PictureView picture, const Table& table) {
    apply_tables(picture, table, table, table);
}

std::array<Histogram, 3> histograms(PictureView picture) {
    std::array<Histogram, 3> counts{};
    for_each_pixel(picture, [&](const std::uint8_t* pixel) {
        ++counts[0][pixel[0]];
        ++counts[1][pixel[1]];
        ++counts[2][pixel[2]];
    });
    return counts;
}

inline std::uint8_t blend(int from, int to, float factor) {
    const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
    const float above = value > 0.0f ? value : 0.0f;
    return static_cast<std::uint8_t>(static_cast<int>(above < 255.0f ? above : 255.0f));
}

Table identity_table() {
    return make_table([](int value) { return static_cast<std::uint8_t>(value); });
}

// The darkest value becomes 0, the brightest 255.
Table stretch(const Histogram& counts) {
    int low = 0, high = 255;
    while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) return identity_table();
    const double scale = 255.0 / (high - low);
    const double offset = -low * scale;
    return make_table([&](int value) {
        const int stretched = static_cast<int>(value * scale + offset);
        return static_cast<std::uint8_t>(stretched < 0 ? 0 : stretched > 255 ? 255 : stretched);
    });
}

// Equal numbers of pixels for every output value, as far as integers allow.
Table flatten(const Histogram& counts) {
    std::int64_t total = 0, brightest = 0;
    int used = 0;
    for (const std::int64_t count : counts) {
        total += count;
        if (count != 0) {
            brightest = count;
            ++used;
        }
    }
    const std::int64_t step = (total - brightest) / 255;
    if (used <= 1 || step == 0) return identity_table();
    std::int64_t sum = step / 2;
    return make_table([&](int value) {
        const std::int64_t level = sum / step;
        sum += counts[static_cast<std::size_t>(value)];
        return static_cast<std::uint8_t>(level > 255 ? 255 : level);
    });
}

}  // namespace

TRAINLOAD_CLONES void blend_row(const std::uint8_t* from, float factor, std::size_t count, std::uint8_t* row) {
    for (std::size_t i = 0; i < count; ++i) {
        row[i] = blend(from[i], row[i], factor);
    }
}

void adjust_brightness(PictureView picture, float factor) {
    apply_table(picture, make_table([&](int value) { return blend(0, value, factor); }));
}

void adjust_contrast(PictureView picture, float factor) {
    std::int64_t sum = 0;
    for_each_pixel(picture, [&](const std::uint8_t* pixel) { sum += luma(pixel); });
    const int mean = static_cast<int>((2 * sum + picture.pixels()) / (2 * picture.pixels()));
    apply_table(picture, make_table([&](int value) { return blend(mean, value, factor); }));
}

void adjust_saturation(PictureView picture, float factor, OpScratch& scratch) {
    const std::size_t bytes = picture.row_bytes();
    grow(scratch.line, bytes);
    std::uint8_t* gray = scratch.line.data();
    for (int y = 0; y < picture.height; ++y) {
        std::uint8_t* row = picture.row(y);
        for (std::size_t i = 0; i < bytes; i += 3) {
            gray[i] = gray[i + 1] = gray[i + 2] = luma(row + i);
        }
        blend_row(gray, factor, bytes, row);
    }
}

void grayscale(PictureView picture) {
    for_each_pixel(picture, [](std::uint8_t* pixel) { pixel[0] = pixel[1] = pixel[2] = luma(pixel); });
}

void invert(PictureView picture) {
    for_each_pixel(picture, [](std::uint8_t* pixel) {
        pixel[0] = static_cast<std::uint8_t>(255 - pixel[0]);
        pixel[1] = static_cast<std::uint8_t>(255 - pixel[1]);
        pixel[2] = static_cast<std::uint8_t>(255 - pixel[2]);
    });
}

void posterize(PictureView picture, int bits) {
    const int mask = 0xFF << (8 - std::clamp(bits, 0, 8));
    apply_table(picture, make_table([&](int value) { return static_cast<std::uint8_t>(value & mask); }));
}

void solarize(PictureView picture, double threshold) {
    apply_table(picture, make_table([&](int value) {
                    return static_cast<std::uint8_t>(value < threshold ? value : 255 - value);
                }));
}

void autocontrast(PictureView picture) {
    const auto counts = histograms(picture);
    apply_tables(picture, stretch(counts[0]), stretch(counts[1]), stretch(counts[2]));
}

void equalize(PictureView picture) {
    const auto counts = histograms(picture);
    apply_tables(picture, flatten(counts[0]), flatten(counts[1]), flatten(counts[2]));
}

}  // namespace trainload
