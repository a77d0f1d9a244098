// Separable antialiased resampling: Pillow's resize(size, filter, box=box) on 8-bit RGB with weights of 22 bits,
// columns first, rows second, 8-bit pixels in between (clipped, as bicubic and lanczos go beyond). Bit-equal to it up
// to Pillow 12, which takes that order; Pillow 13 takes either, so that a pixel may differ by one, or where it was
// clipped by more. This file makes the weights; the loops are kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/filter.h"

namespace trainload {

// One direction: output i is the sum over t < taps of weight(i, t) * input[start[i] + t].
struct AxisFilter {
    // Taps are a multiple of these, filled up with zero weights, in a filter for columns or for rows.
    static constexpr int kColumnStep = 4, kRowStep = 2;

    int outputs = 0;
    int taps = 0;
    int first = 0, end = 0;           // the inputs that carry weight: [first, end)
    bool copies = false;              // every output is one input, unchanged
    std::vector<std::int32_t> start;  // relative to `first`
    // A weight is high * 2^11 + low, low >= 0: two halves that fit the 16-bit multiply-and-add of SIMD. [outputs *
    // taps]
    std::vector<std::int16_t> high, low;

    // The pixels [from, to) of an axis become `scaled` pixels; outputs are those of [window_first, window_end), in
    // reverse where `mirrored`. The filter reads inside [reach_first, reach_end) only. Keeps its memory.
    struct Axis {
        int reach_first, reach_end;
        double from, to;
        int scaled;
        int window_first, window_end;
        bool mirrored;
        Filter filter = Filter::bilinear;
    };
    void build(const Axis& axis, int tap_step);

  private:
    template <typename Shape>
    void build_weighted(const Axis& axis, int tap_step, Shape shape);
    void build_nearest(const Axis& axis, int tap_step);
    template <typename Shape>
    void weigh(int from, int count, double center, double stretch, std::size_t at, Shape shape);
    void settle(const Axis& axis);

    std::vector<std::int32_t> counts_;
    std::vector<double> exact_;
};

constexpr int kLowBits = 11;
constexpr int kWeightBits = 22;

}  // namespace trainload
