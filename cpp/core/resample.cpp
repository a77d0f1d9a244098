#include "core/resample.h"

#include <algorithm>
#include <cmath>

namespace trainload {

// The formulas are precompute_coeffs and normalize_coeffs_8bpc of Pillow's src/libImaging/Resample.c, in the same order
// of operations; positions count from reach_first, as Pillow's do from the edge of its picture.
void AxisFilter::build(const Axis& axis, int tap_step) {
    const double scale = (axis.to - axis.from) / axis.scaled;
    const double origin = axis.from - axis.reach_first;
    const int limit = axis.reach_end - axis.reach_first;
    outputs = axis.window_end - axis.window_first;
    copies = scale == 1.0 && origin == std::floor(origin);
    start.resize(static_cast<std::size_t>(outputs));
    counts_.resize(static_cast<std::size_t>(outputs));
    first = outputs > 0 ? limit : 0, end = 0, taps = 0;
    const double support = std::max(scale, 1.0);
    for (int i = 0; i < outputs; ++i) {
        const double center = origin + (axis.window_first + i + 0.5) * scale;
        start[i] = std::max(static_cast<int>(center - support + 0.5), 0);
        counts_[i] = std::min(static_cast<int>(center + support + 0.5), limit) - start[i];
        first = std::min(first, start[i]);
        end = std::max(end, start[i] + counts_[i]);
        taps = std::max(taps, counts_[i]);
    }
    taps = (taps + tap_step - 1) / tap_step * tap_step;
    exact_.resize(static_cast<std::size_t>(taps));
    high.assign(static_cast<std::size_t>(outputs) * taps, 0);
    low.assign(static_cast<std::size_t>(outputs) * taps, 0);
    for (int i = 0; i < outputs; ++i) {
        const double center = origin + (axis.window_first + i + 0.5) * scale;
        // Taps of no weight stand on inputs that are there, before the others, not beyond the end: but for 3 of them.
        const int moved = copies ? start[i] : std::max(first, std::min(start[i], end - taps));
        const std::size_t place = static_cast<std::size_t>(axis.mirrored ? outputs - 1 - i : i);
        weigh(start[i], counts_[i], center, support, place * taps + static_cast<std::size_t>(start[i] - moved));
        start[i] = moved;
    }
    if (axis.mirrored) std::ranges::reverse(start);
    for (std::int32_t& position : start) position -= first;
    first += axis.reach_first;
    end += axis.reach_first;
}

// The weights of `count` inputs from `from` on; the first goes to `at`.
void AxisFilter::weigh(int from, int count, double center, double support, std::size_t at) {
    const double inverse = 1.0 / support;
    double sum = 0.0;
    for (int t = 0; t < count; ++t) {
        const double distance = std::abs((t + from - center + 0.5) * inverse);
        exact_[t] = distance < 1.0 ? 1.0 - distance : 0.0;
        sum += exact_[t];
    }
    for (int t = 0; t < count; ++t) {
        const double weight = sum != 0.0 ? exact_[t] / sum : exact_[t];
        const int fixed = static_cast<int>(0.5 + weight * (1 << kWeightBits));
        high[at + t] = static_cast<std::int16_t>(fixed >> kLowBits);
        low[at + t] = static_cast<std::int16_t>(fixed & ((1 << kLowBits) - 1));
    }
}

}  // namespace trainload
