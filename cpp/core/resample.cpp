#include "core/resample.h"

#include <algorithm>
#include <cmath>

namespace trainload {

// The formulas are precompute_coeffs and normalize_coeffs_8bpc of Pillow's src/libImaging/Resample.c, in the same order
// of operations; positions count from reach_first, as Pillow's do from the edge of its picture.
void AxisFilter::build(const Axis& axis) {
    const double scale = (axis.to - axis.from) / axis.scaled;
    const double filter_scale = std::max(scale, 1.0), support = filter_scale, inverse = 1.0 / filter_scale;
    const double origin = axis.from - axis.reach_first;
    const int limit = axis.reach_end - axis.reach_first;
    outputs = axis.window_end - axis.window_first;
    const int most = static_cast<int>(std::ceil(support)) * 2 + 1;
    taps = (most + kTapStep - 1) / kTapStep * kTapStep;
    copies = scale == 1.0 && origin == std::floor(origin);
    start.resize(static_cast<std::size_t>(outputs));
    high.assign(static_cast<std::size_t>(outputs) * taps, 0);
    low.assign(static_cast<std::size_t>(outputs) * taps, 0);
    exact_.resize(static_cast<std::size_t>(most));
    first = outputs > 0 ? limit : 0, end = 0;
    for (int i = 0; i < outputs; ++i) {
        const double center = origin + (axis.window_first + i + 0.5) * scale;
        const int low_end = std::max(static_cast<int>(center - support + 0.5), 0);
        const int count = std::min(static_cast<int>(center + support + 0.5), limit) - low_end;
        double sum = 0.0;
        for (int t = 0; t < count; ++t) {
            const double distance = std::abs((t + low_end - center + 0.5) * inverse);
            exact_[t] = distance < 1.0 ? 1.0 - distance : 0.0;
            sum += exact_[t];
        }
        const int place = axis.mirrored ? outputs - 1 - i : i;
        start[place] = low_end;
        std::int16_t* const highs = high.data() + static_cast<std::size_t>(place) * taps;
        std::int16_t* const lows = low.data() + static_cast<std::size_t>(place) * taps;
        for (int t = 0; t < count; ++t) {
            const double weight = sum != 0.0 ? exact_[t] / sum : exact_[t];
            const int fixed = static_cast<int>(0.5 + weight * (1 << kWeightBits));
            highs[t] = static_cast<std::int16_t>(fixed >> kLowBits);
            lows[t] = static_cast<std::int16_t>(fixed & ((1 << kLowBits) - 1));
        }
        first = std::min(first, low_end);
        end = std::max(end, low_end + count);
    }
    for (std::int32_t& position : start) position -= first;
    first += axis.reach_first;
    end += axis.reach_first;
}

}  // namespace trainload
