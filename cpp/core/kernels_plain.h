// The loops in plain C++, also the tails of the SIMD ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/kernels.h"

namespace trainload::plain {

// Sums of the two halves of the weights, put together modulo 2^32: a sum of low halves alone may be that large.
inline std::uint8_t rounded(std::uint32_t high, std::uint32_t low) {
    const std::uint32_t sum = (high << kLowBits) + low + (1U << (kWeightBits - 1));
    return static_cast<std::uint8_t>(std::clamp(static_cast<std::int32_t>(sum) >> kWeightBits, 0, 255));
}

// Output `i` of one row, three channels.
inline void column(const AxisFilter& filter, const std::uint8_t* in, std::uint8_t* out, int i) {
    const std::int16_t* const highs = filter.high.data() + static_cast<std::size_t>(i) * filter.taps;
    const std::int16_t* const lows = filter.low.data() + static_cast<std::size_t>(i) * filter.taps;
    const std::uint8_t* const pixels = in + static_cast<std::size_t>(filter.start[i]) * 4;
    for (int channel = 0; channel < 3; ++channel) {
        std::uint32_t high = 0, low = 0;
        for (int t = 0; t < filter.taps; ++t) {
            high += static_cast<std::uint32_t>(pixels[t * 4 + channel] * highs[t]);
            low += static_cast<std::uint32_t>(pixels[t * 4 + channel] * lows[t]);
        }
        out[i * 3 + channel] = rounded(high, low);
    }
}

inline void row_from(const std::uint8_t* in, std::size_t stride, const std::int16_t* highs, const std::int16_t* lows,
                     int taps, std::uint8_t* out, int i, int count) {
    for (; i < count; ++i) {
        std::uint32_t high = 0, low = 0;
        for (int t = 0; t < taps; ++t) {
            high += static_cast<std::uint32_t>(in[t * stride + i] * highs[t]);
            low += static_cast<std::uint32_t>(in[t * stride + i] * lows[t]);
        }
        out[i] = rounded(high, low);
    }
}

inline void planes_from(const std::uint8_t* rgb, int i, int pixels, std::uint8_t* red, std::uint8_t* green,
                        std::uint8_t* blue) {
    for (; i < pixels; ++i) red[i] = rgb[i * 3], green[i] = rgb[i * 3 + 1], blue[i] = rgb[i * 3 + 2];
}

inline void four_channels_from(const std::uint8_t* rgb, int i, int pixels, std::uint8_t* rgb0) {
    for (; i < pixels; ++i) {
        rgb0[i * 4] = rgb[i * 3], rgb0[i * 4 + 1] = rgb[i * 3 + 1], rgb0[i * 4 + 2] = rgb[i * 3 + 2];
        rgb0[i * 4 + 3] = 0;
    }
}

// IEEE 754 single to half: nearest, ties to even; overflow to infinity.
inline std::uint16_t to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude >= 0x7F800000)
        return static_cast<std::uint16_t>(sign | 0x7C00 | (magnitude > 0x7F800000 ? 0x200 : 0));
    if (magnitude < 0x38800000) {  // below the least normal half: let the addition do the rounding
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000));
    }
    const std::uint32_t rounded_up = magnitude + 0xFFF + (magnitude >> 13 & 1);
    if (rounded_up >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);
    return static_cast<std::uint16_t>(sign | (rounded_up - 0x38000000) >> 13);
}

inline void floats_from(const std::uint8_t* in, const float* scale, const float* offset, int i, int count, float* out) {
    for (; i < count; ++i) out[i] = static_cast<float>(in[i]) * scale[i] + offset[i];
}

inline void halves_from(const std::uint8_t* in, const float* scale, const float* offset, int i, int count,
                        std::uint16_t* out) {
    for (; i < count; ++i) out[i] = to_half(static_cast<float>(in[i]) * scale[i] + offset[i]);
}

}  // namespace trainload::plain
