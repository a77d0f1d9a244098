// Philox 4x32-10: counter-based random numbers (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC11). Pure: the same (seed, epoch, sample, draw, operation) gives the same numbers on every machine and thread.
#pragma once

#include <array>
#include <cstdint>

namespace trainload {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t low = std::uint64_t{0xD2511F53} * counter[0];
        const std::uint64_t high = std::uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<std::uint32_t>(high >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(high),
                   static_cast<std::uint32_t>(low >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(low)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

// The numbers one operation may draw for one sample of one epoch. Number n comes from the counter
// (sample low, sample high ^ draw, epoch, operation << 16 | n / 4), word n % 4; key = (seed low, seed high).
// draw: how often the epoch has had the sample before. Sets with repeats have ids below 2^32: no two counters are
// equal.
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint32_t epoch, std::uint64_t sample, std::uint32_t operation,
          std::uint32_t draw = 0)
        : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
          counter_{static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32) ^ draw, epoch,
                   operation << 16} {}

    std::uint32_t bits() {
        if (used_ == 4) {
            words_ = philox4x32(counter_, key_);
            ++counter_[3];
            used_ = 0;
        }
        return words_[used_++];
    }

    // Uniform in [0, 1): the upper 24 bits, exact in a float and in a double.
    double uniform() { return static_cast<double>(bits() >> 8) * 0x1p-24; }
    double uniform(double low, double high) { return low + (high - low) * uniform(); }

    // Uniform integer in [0, count), count > 0: multiply-shift (bias below count / 2^32).
    std::uint32_t below(std::uint32_t count) {
        return static_cast<std::uint32_t>((std::uint64_t{bits()} * count) >> 32);
    }

  private:
    PhiloxKey key_;
    PhiloxCounter counter_;
    PhiloxCounter words_{};
    unsigned used_ = 4;
};

}  // namespace trainload
