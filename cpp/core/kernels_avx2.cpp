#include "core/kernels_plain.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TRAINLOAD_AVX2 __attribute__((target("avx2,f16c")))

namespace trainload {
namespace {

constexpr int kHalf = 1 << (kWeightBits - 1);

// Sums of the high and the low halves of the weights, put together and rounded; the packing to 8 bits clips.
TRAINLOAD_AVX2 inline __m256i rounded(__m256i high, __m256i low) {
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kWeightBits);
}

TRAINLOAD_AVX2 inline __m256i pair_of_rows(const std::uint8_t* first, const std::uint8_t* second) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

TRAINLOAD_AVX2 inline __m256i two_weights(const std::int16_t* weights) {
    std::int32_t both;
    __builtin_memcpy(&both, weights, sizeof both);
    return _mm256_set1_epi32(both);
}

// One output pixel of two rows: 32-bit channels, a row per lane.
TRAINLOAD_AVX2 inline __m256i pixel_of_rows(const std::uint8_t* first, const std::uint8_t* second,
                                            const std::int16_t* highs, const std::int16_t* lows, int taps) {
    // Bytes of pixels 0, 1 (and 2, 3) as pairs of 16-bit numbers per channel.
    const __m256i pixels01 = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 0, -1, 4, -1, 1,
                                              -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    const __m256i pixels23 = _mm256_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1, 8, -1, 12,
                                              -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    __m256i high = _mm256_setzero_si256(), low = _mm256_setzero_si256();
    for (int t = 0; t < taps; t += AxisFilter::kColumnStep) {
        const __m256i pixels = pair_of_rows(first + t * 4, second + t * 4);
        const __m256i a = _mm256_shuffle_epi8(pixels, pixels01), b = _mm256_shuffle_epi8(pixels, pixels23);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(a, two_weights(highs + t)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(a, two_weights(lows + t)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(b, two_weights(highs + t + 2)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(b, two_weights(lows + t + 2)));
    }
    return rounded(high, low);
}

TRAINLOAD_AVX2 void columns_of_pair(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    const __m256i drop_fourth = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5,
                                                 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const std::int16_t *highs = filter.high.data(), *lows = filter.low.data();
    const int taps = filter.taps;
    int i = 0;
    for (; i + 4 <= filter.outputs; i += 4) {
        __m256i pixels[4];
        for (int k = 0; k < 4; ++k) {
            const std::size_t start = static_cast<std::size_t>(filter.start[i + k]) * 4;
            const std::size_t weights = static_cast<std::size_t>(i + k) * taps;
            pixels[k] = pixel_of_rows(in[0] + start, in[1] + start, highs + weights, lows + weights, taps);
        }
        const __m256i bytes =
            _mm256_packus_epi16(_mm256_packus_epi32(pixels[0], pixels[1]), _mm256_packus_epi32(pixels[2], pixels[3]));
        const __m256i rgb = _mm256_shuffle_epi8(bytes, drop_fourth);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[0] + i * 3), _mm256_castsi256_si128(rgb));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[1] + i * 3), _mm256_extracti128_si256(rgb, 1));
    }
    for (; i < filter.outputs; ++i)
        for (int k = 0; k < 2; ++k) plain::column(filter, in[k], out[k], i);
}

TRAINLOAD_AVX2 void columns(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    columns_of_pair(filter, in, out);
    columns_of_pair(filter, in + 2, out + 2);
}

TRAINLOAD_AVX2 void row(const std::uint8_t* in, std::size_t stride, const std::int16_t* highs, const std::int16_t* lows,
                        int taps, std::uint8_t* out, int count) {
    int i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i high[4], low[4];
        for (int k = 0; k < 4; ++k) high[k] = low[k] = _mm256_setzero_si256();
        for (int t = 0; t < taps; t += 2) {
            const std::uint8_t* const at = in + static_cast<std::size_t>(t) * stride + i;
            const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
            const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + stride));
            const __m256i zero = _mm256_setzero_si256();
            const __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
            const __m256i pairs[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                                      _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
            const __m256i high_pair = two_weights(highs + t), low_pair = two_weights(lows + t);
            for (int k = 0; k < 4; ++k) {
                high[k] = _mm256_add_epi32(high[k], _mm256_madd_epi16(pairs[k], high_pair));
                low[k] = _mm256_add_epi32(low[k], _mm256_madd_epi16(pairs[k], low_pair));
            }
        }
        const __m256i left = _mm256_packus_epi32(rounded(high[0], low[0]), rounded(high[1], low[1]));
        const __m256i right = _mm256_packus_epi32(rounded(high[2], low[2]), rounded(high[3], low[3]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_packus_epi16(left, right));
    }
    plain::row_from(in, stride, highs, lows, taps, out, i, count);
}

TRAINLOAD_AVX2 void planes(const std::uint8_t* rgb, int pixels, std::uint8_t* red, std::uint8_t* green,
                           std::uint8_t* blue) {
    // 16 pixels in three vectors: each vector gives each plane some bytes.
    alignas(16) static constexpr std::int8_t kSource[3][3][16] = {
        {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
        {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
        {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}}};
    std::uint8_t* const out[3] = {red, green, blue};
    int i = 0;
    for (; i + 16 <= pixels; i += 16) {
        __m128i source[3];
        for (int k = 0; k < 3; ++k) source[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rgb + i * 3) + k);
        for (int channel = 0; channel < 3; ++channel) {
            __m128i plane = _mm_setzero_si128();
            for (int k = 0; k < 3; ++k)
                plane = _mm_or_si128(
                    plane, _mm_shuffle_epi8(source[k], *reinterpret_cast<const __m128i*>(kSource[channel][k])));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out[channel] + i), plane);
        }
    }
    plain::planes_from(rgb, i, pixels, red, green, blue);
}

TRAINLOAD_AVX2 void four_channels(const std::uint8_t* rgb, int pixels, std::uint8_t* rgb0) {
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    int i = 0;
    for (; i + 6 <= pixels; i += 4) {  // a load takes 16 bytes, of which 12 are used
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rgb + i * 3));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(rgb0 + i * 4), _mm_shuffle_epi8(bytes, spread));
    }
    plain::four_channels_from(rgb, i, pixels, rgb0);
}

TRAINLOAD_AVX2 inline __m256 scaled(const std::uint8_t* in, const float* scale, const float* offset) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
    const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    return _mm256_add_ps(_mm256_mul_ps(values, _mm256_loadu_ps(scale)), _mm256_loadu_ps(offset));
}

TRAINLOAD_AVX2 void floats(const std::uint8_t* in, const float* scale, const float* offset, int count, float* out) {
    int i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, scaled(in + i, scale + i, offset + i));
    plain::floats_from(in, scale, offset, i, count, out);
}

TRAINLOAD_AVX2 void halves(const std::uint8_t* in, const float* scale, const float* offset, int count,
                           std::uint16_t* out) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256 values = scaled(in + i, scale + i, offset + i);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    }
    plain::halves_from(in, scale, offset, i, count, out);
}

}  // namespace

const Kernels* avx2_kernels() {
    static const Kernels kernels{"avx2", columns, row, planes, four_channels, floats, halves};
    return __builtin_cpu_supports("avx2") ? &kernels : nullptr;  // and f16c, which is older than avx2
}

}  // namespace trainload

#else

namespace trainload {

const Kernels* avx2_kernels() {
    return nullptr;
}

}  // namespace trainload

#endif
