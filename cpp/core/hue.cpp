// Hue: Pillow's rgb2hsv and hsv2rgb, step by step with the same roundings, on pixels side by side so that the compiler
// can vectorise the loops (with -fno-trapping-math: both sides of a choice are computed).
#include <array>
#include <cstring>

#include "core/clones.h"
#include "core/colour.h"

namespace trainload {

namespace {

constexpr int lanes = 64;  // pixels at a time: everything stays in the first cache

using Bytes = std::array<std::uint8_t, 3 * lanes>;

struct Hsv {
    float value[lanes];
    std::int32_t hue[lanes], saturation[lanes];
};

inline float higher(float a, float b) {
    return a > b ? a : b;
}

inline float lower(float a, float b) {
    return a < b ? a : b;
}

// Single precision but for the sums and the last step of the hue, which are double.
TRAINLOAD_CLONES void to_hsv(const Bytes& bytes, Hsv& out) {
    for (int i = 0; i < lanes; ++i) {
        const float red = bytes[3 * i], green = bytes[3 * i + 1], blue = bytes[3 * i + 2];
        const float high = higher(red, higher(green, blue));
        const float range = high - lower(red, lower(green, blue));
        const float divisor = range > 0.0f ? range : 1.0f;  // gray: hue and saturation become 0
        const float from_red = (high - red) / divisor;
        const float from_green = (high - green) / divisor;
        const float from_blue = (high - blue) / divisor;
        const float near_red = from_blue - from_green;
        const float near_green = static_cast<float>(2.0 + from_red - from_blue);
        const float near_blue = static_cast<float>(4.0 + from_green - from_red);
        const float sextants = red == high ? near_red : green == high ? near_green : near_blue;
        const double turns = sextants / 6.0 + 1.0;  // 5/6 .. 11/6
        const float circle = static_cast<float>(turns >= 1.0 ? turns - 1.0 : turns);
        const float saturation = range / (high > 0.0f ? high : 1.0f);
        out.value[i] = high;
        out.hue[i] = static_cast<std::int32_t>(circle * 255.0);
        out.saturation[i] = static_cast<std::int32_t>(saturation * 255.0);
    }
}

// The values that a channel may take, in one word (v, t, p, q from the lowest byte up), and the sector of the circle.
struct Mixtures {
    std::int32_t values[lanes], sector[lanes];
};

inline std::int32_t rounded(double value) {
    return static_cast<std::int32_t>(value + 0.5);
}

TRAINLOAD_CLONES void to_mixtures(const Hsv& hsv, int steps, Mixtures& out) {
    for (int i = 0; i < lanes; ++i) {
        const double sextants = static_cast<double>((hsv.hue[i] + steps) & 255) * 6.0 / 255.0;
        const auto sector = static_cast<std::int32_t>(sextants);
        const float fraction = static_cast<float>(sextants - sector);
        const float saturation = static_cast<float>(hsv.saturation[i] / 255.0);
        const float value = hsv.value[i];
        const std::int32_t p = rounded(value * (1.0 - saturation));
        const std::int32_t q = rounded(value * (1.0 - saturation * fraction));
        const std::int32_t t = rounded(value * (1.0 - saturation * (1.0 - fraction)));
        out.values[i] = static_cast<std::int32_t>(value) | t << 8 | p << 16 | q << 24;
        out.sector[i] = sector;
    }
}

// Which byte of the word each channel takes, as a shift, by sector; 6 is 0 again.
constexpr int v = 0, t = 8, p = 16, q = 24;
constexpr std::uint8_t shifts[7][3]{{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}, {v, t, p}};

void to_rgb(const Mixtures& mixtures, Bytes& bytes) {
    for (std::size_t i = 0; i < lanes; ++i) {
        const auto values = static_cast<std::uint32_t>(mixtures.values[i]);
        const std::uint8_t* shift = shifts[mixtures.sector[i]];
        bytes[3 * i] = static_cast<std::uint8_t>(values >> shift[0]);
        bytes[3 * i + 1] = static_cast<std::uint8_t>(values >> shift[1]);
        bytes[3 * i + 2] = static_cast<std::uint8_t>(values >> shift[2]);
    }
}

}  // namespace

void adjust_hue(PictureView picture, double shift) {
    const int steps = static_cast<int>(shift * 255.0) & 255;
    Bytes bytes{};
    Hsv hsv;
    Mixtures mixtures;
    for (int y = 0; y < picture.height; ++y) {
        for (int x = 0; x < picture.width; x += lanes) {
            std::uint8_t* part = picture.row(y) + 3 * static_cast<std::size_t>(x);
            const std::size_t count = 3 * static_cast<std::size_t>(std::min(lanes, picture.width - x));
            std::memcpy(bytes.data(), part, count);
            to_hsv(bytes, hsv);
            to_mixtures(hsv, steps, mixtures);
            to_rgb(mixtures, bytes);
            std::memcpy(part, bytes.data(), count);
        }
    }
}

}  // namespace trainload
