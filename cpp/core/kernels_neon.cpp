#include "core/kernels_plain.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace trainload {
namespace {

// Both halves of a weight at once: NEON multiplies 32-bit numbers as fast as 16-bit ones. Sums are modulo 2^32.
inline std::uint32_t weight(const std::int16_t* highs, const std::int16_t* lows, std::size_t i) {
    return static_cast<std::uint32_t>(highs[i] << kLowBits | lows[i]);
}

// Clipped to 0 .. 65535.
inline uint16x4_t rounded(uint32x4_t sums) {
    return vqmovun_s32(vshrq_n_s32(vreinterpretq_s32_u32(sums), kWeightBits));
}

void columns(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    const std::int16_t *highs = filter.high.data(), *lows = filter.low.data();
    const auto taps = static_cast<std::size_t>(filter.taps);
    for (int i = 0; i < filter.outputs; ++i) {
        const std::size_t start = static_cast<std::size_t>(filter.start[i]) * 4;
        uint32x4_t sums[Kernels::kRowsAtOnce];
        for (uint32x4_t& sum : sums) sum = vdupq_n_u32(1U << (kWeightBits - 1));
        for (std::size_t t = 0; t < taps; t += 2) {
            const std::uint32_t first = weight(highs, lows, i * taps + t),
                                second = weight(highs, lows, i * taps + t + 1);
            for (int k = 0; k < Kernels::kRowsAtOnce; ++k) {
                const uint16x8_t pixels = vmovl_u8(vld1_u8(in[k] + start + t * 4));
                sums[k] = vmlaq_n_u32(sums[k], vmovl_u16(vget_low_u16(pixels)), first);
                sums[k] = vmlaq_n_u32(sums[k], vmovl_u16(vget_high_u16(pixels)), second);
            }
        }
        for (int k = 0; k < Kernels::kRowsAtOnce; ++k) {
            const uint16x4_t channels = rounded(sums[k]);
            const uint8x8_t pixel = vqmovn_u16(vcombine_u16(channels, channels));
            out[k][i * 3] = vget_lane_u8(pixel, 0);
            out[k][i * 3 + 1] = vget_lane_u8(pixel, 1);
            out[k][i * 3 + 2] = vget_lane_u8(pixel, 2);
        }
    }
}

void row(const std::uint8_t* in, std::size_t stride, const std::int16_t* highs, const std::int16_t* lows, int taps,
         std::uint8_t* out, int count) {
    int i = 0;
    for (; i + 16 <= count; i += 16) {
        uint32x4_t sums[4];
        for (uint32x4_t& sum : sums) sum = vdupq_n_u32(1U << (kWeightBits - 1));
        for (int t = 0; t < taps; ++t) {
            const uint8x16_t bytes = vld1q_u8(in + static_cast<std::size_t>(t) * stride + i);
            const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
            const std::uint32_t factor = weight(highs, lows, static_cast<std::size_t>(t));
            sums[0] = vmlaq_n_u32(sums[0], vmovl_u16(vget_low_u16(low)), factor);
            sums[1] = vmlaq_n_u32(sums[1], vmovl_high_u16(low), factor);
            sums[2] = vmlaq_n_u32(sums[2], vmovl_u16(vget_low_u16(high)), factor);
            sums[3] = vmlaq_n_u32(sums[3], vmovl_high_u16(high), factor);
        }
        const uint16x8_t low = vcombine_u16(rounded(sums[0]), rounded(sums[1]));
        const uint16x8_t high = vcombine_u16(rounded(sums[2]), rounded(sums[3]));
        vst1q_u8(out + i, vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)));
    }
    plain::row_from(in, stride, highs, lows, taps, out, i, count);
}

void planes(const std::uint8_t* rgb, int pixels, std::uint8_t* red, std::uint8_t* green, std::uint8_t* blue) {
    int i = 0;
    for (; i + 16 <= pixels; i += 16) {
        const uint8x16x3_t colours = vld3q_u8(rgb + i * 3);
        vst1q_u8(red + i, colours.val[0]);
        vst1q_u8(green + i, colours.val[1]);
        vst1q_u8(blue + i, colours.val[2]);
    }
    plain::planes_from(rgb, i, pixels, red, green, blue);
}

void four_channels(const std::uint8_t* rgb, int pixels, std::uint8_t* rgb0) {
    int i = 0;
    for (; i + 16 <= pixels; i += 16) {
        const uint8x16x3_t colours = vld3q_u8(rgb + i * 3);
        vst4q_u8(rgb0 + i * 4, uint8x16x4_t{{colours.val[0], colours.val[1], colours.val[2], vdupq_n_u8(0)}});
    }
    plain::four_channels_from(rgb, i, pixels, rgb0);
}

// Eight numbers, multiplied and added apart.
struct Eight {
    float32x4_t low, high;
};
inline Eight scaled(const std::uint8_t* in, const float* scale, const float* offset) {
    const uint16x8_t bytes = vmovl_u8(vld1_u8(in));
    const float32x4_t low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(bytes)));
    const float32x4_t high = vcvtq_f32_u32(vmovl_high_u16(bytes));
    return {vaddq_f32(vmulq_f32(low, vld1q_f32(scale)), vld1q_f32(offset)),
            vaddq_f32(vmulq_f32(high, vld1q_f32(scale + 4)), vld1q_f32(offset + 4))};
}

void floats(const std::uint8_t* in, const float* scale, const float* offset, int count, float* out) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        const Eight values = scaled(in + i, scale + i, offset + i);
        vst1q_f32(out + i, values.low);
        vst1q_f32(out + i + 4, values.high);
    }
    plain::floats_from(in, scale, offset, i, count, out);
}

void halves(const std::uint8_t* in, const float* scale, const float* offset, int count, std::uint16_t* out) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        const Eight values = scaled(in + i, scale + i, offset + i);
        vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(values.low)));
        vst1_u16(out + i + 4, vreinterpret_u16_f16(vcvt_f16_f32(values.high)));
    }
    plain::halves_from(in, scale, offset, i, count, out);
}

}  // namespace

const Kernels* neon_kernels() {
    static const Kernels kernels{"neon", columns, row, planes, four_channels, floats, halves};
    return &kernels;
}

}  // namespace trainload

#else

namespace trainload {

const Kernels* neon_kernels() {
    return nullptr;
}

}  // namespace trainload

#endif
