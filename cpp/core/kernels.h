// The inner loops, once per instruction set: all give the same bits, so the choice is speed only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/resample.h"

namespace trainload {

struct Kernels {
    const char* name;

    // Columns of four rows: in[k] has 4 bytes per pixel and starts at input filter.first; out[k] gets filter.outputs
    // pixels of 3 bytes. Reads up to 64 bytes beyond the row's last pixel and writes up to 64 beyond out's.
    static constexpr int kRowsAtOnce = 4;
    void (*columns)(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out);

    // One row: out[i] = sum over t of weight t * in[t * stride + i], i < count. taps weights, zero ones not skipped.
    void (*row)(const std::uint8_t* in, std::size_t stride, const std::int16_t* high, const std::int16_t* low, int taps,
                std::uint8_t* out, int count);

    // RGB bytes to three planes.
    void (*planes)(const std::uint8_t* rgb, int pixels, std::uint8_t* red, std::uint8_t* green, std::uint8_t* blue);

    // RGB bytes to RGB0.
    void (*four_channels)(const std::uint8_t* rgb, int pixels, std::uint8_t* rgb0);

    // out[i] = in[i] * scale[i] + offset[i] in single precision, multiplied and added apart (no fused operation).
    void (*floats)(const std::uint8_t* in, const float* scale, const float* offset, int count, float* out);

    // The same, rounded to half precision (nearest, ties to even).
    void (*halves)(const std::uint8_t* in, const float* scale, const float* offset, int count, std::uint16_t* out);
};

// The fastest set that this processor runs.
const Kernels& best_kernels();

// The set of that name, "" for the fastest; nullptr where this processor has none such.
const Kernels* kernels_called(std::string_view name);

// Every set that this processor runs, plain C++ first.
const std::vector<const Kernels*>& all_kernels();

// One set per file kernels_<name>.cpp; nullptr where this processor (or this build) does not have it.
const Kernels* plain_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

}  // namespace trainload
