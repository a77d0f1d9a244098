#include "core/noise.h"

#include <bit>
#include <cmath>

#include "core/clones.h"

namespace trainload {
namespace {

constexpr int kLanes = 64;  // blocks at a time: everything stays in the first cache

// Of each block, word k.
struct Words {
    std::uint32_t word[4][kLanes];
};

// The blocks from `first` on, as philox4x32 (philox.h) of (block, 0, 0, 0), side by side for SIMD.
TRAINLOAD_CLONES void draw_blocks(std::uint32_t first, int count, PhiloxKey key, Words& words) {
    auto& [c0, c1, c2, c3] = words.word;
    const int lanes = (count + 7) / 8 * 8;  // a remainder takes longer than what it leaves out
    for (int i = 0; i < lanes; ++i) c0[i] = first + static_cast<std::uint32_t>(i), c1[i] = c2[i] = c3[i] = 0;
    for (int round = 0; round < 10; ++round) {
        const std::uint32_t k0 = key[0], k1 = key[1];
        for (int i = 0; i < lanes; ++i) {
            const std::uint64_t low = std::uint64_t{0xD2511F53} * c0[i];
            const std::uint64_t high = std::uint64_t{0xCD9E8D57} * c2[i];
            c0[i] = static_cast<std::uint32_t>(high >> 32) ^ c1[i] ^ k0;
            c1[i] = static_cast<std::uint32_t>(high);
            c2[i] = static_cast<std::uint32_t>(low >> 32) ^ c3[i] ^ k1;
            c3[i] = static_cast<std::uint32_t>(low);
        }
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
}

// sqrt(-2 log(1 - u)), u = the upper 24 bits. The logarithm is that of Moshier's Cephes library (logf): the number is
// 2^exponent * (1 + x) with 1 + x in [sqrt(1/2), sqrt(2)), log(1 + x) a polynomial of degree 8 beyond x - x^2 / 2.
inline float radius(std::uint32_t word) {
    const float number = 1.0F - static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24F;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
    const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3F3504F3) >> 23;
    const float x = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0F;
    const float e = static_cast<float>(exponent), square = x * x;
    float sum = 7.0376836292e-2F;
    sum = sum * x - 1.1514610310e-1F;
    sum = sum * x + 1.1676998740e-1F;
    sum = sum * x - 1.2420140846e-1F;
    sum = sum * x + 1.4249322787e-1F;
    sum = sum * x - 1.6668057665e-1F;
    sum = sum * x + 2.0000714765e-1F;
    sum = sum * x - 2.4999993993e-1F;
    sum = sum * x + 3.3333331174e-1F;
    const float small = sum * x * square + e * -2.12194440e-4F - 0.5F * square;
    const float logarithm = x + small + e * 0.693359375F;
    return std::sqrt(-2.0F * logarithm);
}

struct Turn {
    float cosine, sine;
};

// Of 2 pi times the upper 24 bits: the nearest quarter of the circle, and polynomials (Cephes's sinf and cosf) for the
// rest of at most an eighth.
inline Turn turn(std::uint32_t word) {
    const auto place = static_cast<std::int32_t>(word >> 8);
    const std::int32_t quarter = (place + (1 << 21)) >> 22;
    const float x = static_cast<float>(place - (quarter << 22)) * 3.7450702829e-7F;  // 2 pi / 2^24
    const float square = x * x;
    const float sine = ((-1.9515295891e-4F * square + 8.3321608736e-3F) * square - 1.6666654611e-1F) * square * x + x;
    const float cosine =
        ((2.443315711809948e-5F * square - 1.388731625493765e-3F) * square + 4.166664568298827e-2F) * square * square -
        0.5F * square + 1.0F;
    const bool odd = (quarter & 1) != 0;
    const float to_cosine = odd ? sine : cosine, to_sine = odd ? cosine : sine;
    return {((quarter + 1) & 2) != 0 ? -to_cosine : to_cosine, (quarter & 2) != 0 ? -to_sine : to_sine};
}

TRAINLOAD_CLONES void normal_pairs(const std::uint32_t* radius_words, const std::uint32_t* angle_words, int count,
                                   float* first, float* second) {
    for (int i = 0; i < count; ++i) {
        const float r = radius(radius_words[i]);
        const Turn angle = turn(angle_words[i]);
        first[i] = r * angle.cosine;
        second[i] = r * angle.sine;
    }
}

TRAINLOAD_CLONES void add_row(const float* normals, float mean, float sigma, std::size_t count, std::uint8_t* row) {
    constexpr float kRounder = 0x1.8p23F;  // added to a small number: rounds it to nearest, ties to even
    for (std::size_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(row[i]) + (mean + sigma * normals[i]);
        const float above = value > 0.0F ? value : 0.0F;
        const float clipped = above < 255.0F ? above : 255.0F;
        row[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(clipped + kRounder));
    }
}

}  // namespace

void add_gaussian_noise(PictureView picture, double mean, double sigma, PhiloxKey key, OpScratch& scratch) {
    const std::size_t bytes = picture.row_bytes();
    const int blocks = static_cast<int>((bytes + 3) / 4);
    grow(scratch.padded, static_cast<std::size_t>(blocks) * 4);
    float* const normals = scratch.padded.data();
    const auto offset = static_cast<float>(255.0 * mean), factor = static_cast<float>(255.0 * sigma);
    Words words;
    for (int y = 0; y < picture.height; ++y) {
        const std::uint32_t first = static_cast<std::uint32_t>(y) * static_cast<std::uint32_t>(blocks);
        for (int b = 0; b < blocks; b += kLanes) {
            const int count = std::min(kLanes, blocks - b);
            float* const out = normals + b;
            draw_blocks(first + static_cast<std::uint32_t>(b), count, key, words);
            normal_pairs(words.word[0], words.word[1], count, out, out + blocks);
            normal_pairs(words.word[2], words.word[3], count, out + 2 * blocks, out + 3 * blocks);
        }
        add_row(normals, offset, factor, bytes, picture.row(y));
    }
}

}  // namespace trainload
