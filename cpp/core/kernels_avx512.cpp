#include "core/kernels_plain.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 takes its own header's undefined vectors for mistakes
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>

#define TRAINLOAD_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace trainload {
namespace {

// What is negative or above 255 is clipped by the packing to 8 bits.
TRAINLOAD_AVX512 inline __m512i rounded(__m512i high, __m512i low) {
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, kLowBits), low);
    return _mm512_srai_epi32(sum, kWeightBits);
}

// Sums of low halves start with one half, so that the shift rounds.
TRAINLOAD_AVX512 inline __m512i half() {
    return _mm512_set1_epi32(1 << (kWeightBits - 1));
}

TRAINLOAD_AVX512 inline __m512i two_weights(const std::int16_t* weights) {
    std::int32_t both;
    __builtin_memcpy(&both, weights, sizeof both);
    return _mm512_set1_epi32(both);
}

TRAINLOAD_AVX512 inline __m128i load(const std::uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// One output pixel of four rows: 32-bit channels, a row per lane. offset: of the first input, in bytes. fixed_taps: 0
// where only `taps` knows.
template <int fixed_taps>
TRAINLOAD_AVX512 inline __m512i pixel_of_rows(const std::uint8_t* const* in, std::size_t offset,
                                              const std::int16_t* highs, const std::int16_t* lows, int taps) {
    // Bytes of pixels 0, 1 (and 2, 3) as pairs of 16-bit numbers per channel.
    const __m512i pixels01 =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
    const __m512i pixels23 =
        _mm512_broadcast_i32x4(_mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
    __m512i high = _mm512_setzero_si512(), low = half();
    if (fixed_taps != 0) taps = fixed_taps;
    for (int t = 0; t < taps; t += AxisFilter::kColumnStep, offset += AxisFilter::kColumnStep * 4) {
        __m512i pixels = _mm512_castsi128_si512(load(in[0] + offset));
        pixels = _mm512_inserti32x4(pixels, load(in[1] + offset), 1);
        pixels = _mm512_inserti32x4(pixels, load(in[2] + offset), 2);
        pixels = _mm512_inserti32x4(pixels, load(in[3] + offset), 3);
        const __m512i a = _mm512_shuffle_epi8(pixels, pixels01), b = _mm512_shuffle_epi8(pixels, pixels23);
        high = _mm512_dpwssd_epi32(high, a, two_weights(highs + t));
        low = _mm512_dpwssd_epi32(low, a, two_weights(lows + t));
        high = _mm512_dpwssd_epi32(high, b, two_weights(highs + t + 2));
        low = _mm512_dpwssd_epi32(low, b, two_weights(lows + t + 2));
    }
    return rounded(high, low);
}

template <int fixed_taps>
TRAINLOAD_AVX512 void columns_with(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    const __m512i drop_fourth =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const std::int16_t *highs = filter.high.data(), *lows = filter.low.data();
    const std::int32_t* const start = filter.start.data();
    const std::uint8_t* const rows[4] = {in[0], in[1], in[2], in[3]};
    const int taps = fixed_taps != 0 ? fixed_taps : filter.taps, outputs = filter.outputs;
    int i = 0;
    for (; i + 4 <= outputs; i += 4, highs += 4 * taps, lows += 4 * taps) {
        __m512i pixels[4];
        for (int k = 0; k < 4; ++k)
            pixels[k] = pixel_of_rows<fixed_taps>(rows, static_cast<std::size_t>(start[i + k]) * 4, highs + k * taps,
                                                  lows + k * taps, taps);
        const __m512i bytes =
            _mm512_packus_epi16(_mm512_packus_epi32(pixels[0], pixels[1]), _mm512_packus_epi32(pixels[2], pixels[3]));
        const __m512i rgb = _mm512_shuffle_epi8(bytes, drop_fourth);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[0] + i * 3), _mm512_castsi512_si128(rgb));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[1] + i * 3), _mm512_extracti32x4_epi32(rgb, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[2] + i * 3), _mm512_extracti32x4_epi32(rgb, 2));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[3] + i * 3), _mm512_extracti32x4_epi32(rgb, 3));
    }
    for (; i < outputs; ++i)
        for (int k = 0; k < Kernels::kRowsAtOnce; ++k) plain::column(filter, in[k], out[k], i);
}

// Four taps are every enlargement and every reduction to no less than half: worth a loop of their own.
TRAINLOAD_AVX512 void columns(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    filter.taps == 4 ? columns_with<4>(filter, in, out) : columns_with<0>(filter, in, out);
}

TRAINLOAD_AVX512 void row(const std::uint8_t* in, std::size_t stride, const std::int16_t* highs,
                          const std::int16_t* lows, int taps, std::uint8_t* out, int count) {
    const __m512i zero = _mm512_setzero_si512();
    for (int i = 0; i < count; i += 64) {
        const __mmask64 part = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
        __m512i high[4], low[4];
        for (int k = 0; k < 4; ++k) high[k] = zero, low[k] = half();
        for (int t = 0; t < taps; t += AxisFilter::kRowStep) {
            const std::uint8_t* const at = in + static_cast<std::size_t>(t) * stride + i;
            const __m512i a = _mm512_maskz_loadu_epi8(part, at), b = _mm512_maskz_loadu_epi8(part, at + stride);
            const __m512i left = _mm512_unpacklo_epi8(a, b), right = _mm512_unpackhi_epi8(a, b);
            const __m512i pairs[4] = {_mm512_unpacklo_epi8(left, zero), _mm512_unpackhi_epi8(left, zero),
                                      _mm512_unpacklo_epi8(right, zero), _mm512_unpackhi_epi8(right, zero)};
            const __m512i high_pair = two_weights(highs + t), low_pair = two_weights(lows + t);
            for (int k = 0; k < 4; ++k) {
                high[k] = _mm512_dpwssd_epi32(high[k], pairs[k], high_pair);
                low[k] = _mm512_dpwssd_epi32(low[k], pairs[k], low_pair);
            }
        }
        const __m512i left = _mm512_packus_epi32(rounded(high[0], low[0]), rounded(high[1], low[1]));
        const __m512i right = _mm512_packus_epi32(rounded(high[2], low[2]), rounded(high[3], low[3]));
        _mm512_mask_storeu_epi8(out + i, part, _mm512_packus_epi16(left, right));
    }
}

// Where byte `i` of a plane of 64 pixels stands in their 192 bytes, taken in two steps: from the first 128 bytes, then
// from what the first step gave and the last 64 bytes.
struct PlaneOrder {
    alignas(64) std::array<std::uint8_t, 64> first, last;
};

constexpr PlaneOrder plane_order(std::size_t channel) {
    PlaneOrder order{};
    for (std::size_t i = 0; i < 64; ++i) {
        const std::size_t from = 3 * i + channel;
        order.first[i] = static_cast<std::uint8_t>(from < 128 ? from : 0);
        order.last[i] = static_cast<std::uint8_t>(from < 128 ? i : from - 128 + 64);
    }
    return order;
}

constexpr std::array<PlaneOrder, 3> kPlaneOrders{plane_order(0), plane_order(1), plane_order(2)};

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void planes(const std::uint8_t* rgb, int pixels,
                                                                   std::uint8_t* red, std::uint8_t* green,
                                                                   std::uint8_t* blue) {
    if (pixels < 64) return plain::planes_from(rgb, 0, pixels, red, green, blue);
    std::uint8_t* const out[3] = {red, green, blue};
    for (int i = 0; i < pixels; i += 64) {
        const int at = std::min(i, pixels - 64);  // the last vector does some pixels once more
        const std::uint8_t* const bytes = rgb + at * 3;
        const __m512i a = _mm512_loadu_si512(bytes), b = _mm512_loadu_si512(bytes + 64);
        const __m512i c = _mm512_loadu_si512(bytes + 128);
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const __m512i first = _mm512_load_si512(kPlaneOrders[channel].first.data());
            const __m512i last = _mm512_load_si512(kPlaneOrders[channel].last.data());
            const __m512i plane = _mm512_permutex2var_epi8(_mm512_permutex2var_epi8(a, first, b), last, c);
            _mm512_storeu_si512(out[channel] + at, plane);
        }
    }
}

}  // namespace

const Kernels* avx512_kernels() {
    if (avx2_kernels() == nullptr || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512vnni"))
        return nullptr;
    static const Kernels kernels = [] {
        Kernels set = *avx2_kernels();  // floats are bound by memory: nothing to gain there
        set.name = "avx512";
        set.columns = columns;
        set.row = row;
        if (__builtin_cpu_supports("avx512vbmi")) set.planes = planes;
        return set;
    }();
    return &kernels;
}

}  // namespace trainload

#else

namespace trainload {

const Kernels* avx512_kernels() {
    return nullptr;
}

}  // namespace trainload

#endif
