#include "core/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainload {
namespace {

// Of a distance from the centre, as in Pillow's src/libImaging/Resample.c.
double bilinear(double x) {
    const double distance = std::abs(x);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

double bicubic(double x) {
    constexpr double a = -0.5;
    const double distance = std::abs(x);
    if (distance < 1.0) return ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0;
    if (distance < 2.0) return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * a;
    return 0.0;
}

double sinc(double x) {
    if (x == 0.0) return 1.0;
    x *= std::numbers::pi;
    return std::sin(x) / x;
}

double lanczos(double x) {
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

double box(double x) {
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

}  // namespace

void AxisFilter::build(const Axis& axis, int tap_step) {
    const double scale = (axis.to - axis.from) / axis.scaled, origin = axis.from - axis.reach_first;
    copies = axis.filter == Filter::nearest || (scale == 1.0 && origin == std::floor(origin));
    if (copies) return build_nearest(axis, tap_step);
    switch (axis.filter) {
        case Filter::bilinear:
            return build_weighted(axis, tap_step, bilinear);
        case Filter::bicubic:
            return build_weighted(axis, tap_step, bicubic);
        case Filter::lanczos:
            return build_weighted(axis, tap_step, lanczos);
        case Filter::box:
            return build_weighted(axis, tap_step, box);
        case Filter::nearest:
            return;
    }
}

// The formulas are precompute_coeffs and normalize_coeffs_8bpc of Pillow's src/libImaging/Resample.c, in the same order
// of operations; positions count from reach_first, as Pillow's do from the edge of its picture.
template <typename Shape>
void AxisFilter::build_weighted(const Axis& axis, int tap_step, Shape shape) {
    const double scale = (axis.to - axis.from) / axis.scaled, origin = axis.from - axis.reach_first;
    const int limit = axis.reach_end - axis.reach_first;
    outputs = axis.window_end - axis.window_first;
    start.resize(static_cast<std::size_t>(outputs));
    counts_.resize(static_cast<std::size_t>(outputs));
    first = outputs > 0 ? limit : 0, end = 0, taps = 0;
    const double stretch = std::max(scale, 1.0), support = support_of(axis.filter) * stretch;
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
        const int moved = std::max(first, std::min(start[i], end - taps));
        const std::size_t place = static_cast<std::size_t>(axis.mirrored ? outputs - 1 - i : i);
        weigh(start[i], counts_[i], center, stretch, place * taps + static_cast<std::size_t>(start[i] - moved), shape);
        start[i] = moved;
    }
    settle(axis);
}

// The inputs under the centres of the outputs, which are added up as in ImagingScaleAffine of Pillow's Geometry.c. Its
// clip at the ends answers for a sum that rounds beyond them.
void AxisFilter::build_nearest(const Axis& axis, int tap_step) {
    const double scale = (axis.to - axis.from) / axis.scaled;
    const int limit = axis.reach_end - axis.reach_first;
    outputs = axis.window_end - axis.window_first;
    first = outputs > 0 ? limit : 0, end = 0, taps = tap_step;
    start.resize(static_cast<std::size_t>(outputs));
    high.assign(static_cast<std::size_t>(outputs) * taps, 0);
    low.assign(static_cast<std::size_t>(outputs) * taps, 0);
    double center = axis.from - axis.reach_first + 0.5 * scale;
    for (int position = 0; position < axis.window_end; ++position, center += scale) {
        const int i = position - axis.window_first;
        if (i < 0) continue;
        start[i] = std::clamp(static_cast<int>(center), 0, limit - 1);
        high[static_cast<std::size_t>(i) * taps] = 1 << (kWeightBits - kLowBits);
        first = std::min(first, start[i]);
        end = std::max(end, start[i] + 1);
    }
    settle(axis);
}

// The weights of `count` inputs from `from` on; the first goes to `at`.
template <typename Shape>
void AxisFilter::weigh(int from, int count, double center, double stretch, std::size_t at, Shape shape) {
    const double inverse = 1.0 / stretch;
    double sum = 0.0;
    for (int t = 0; t < count; ++t) {
        exact_[t] = shape((t + from - center + 0.5) * inverse);
        sum += exact_[t];
    }
    for (int t = 0; t < count; ++t) {
        const double weight = sum != 0.0 ? exact_[t] / sum : exact_[t];
        const int fixed = static_cast<int>((weight < 0.0 ? -0.5 : 0.5) + weight * (1 << kWeightBits));
        high[at + t] = static_cast<std::int16_t>(fixed >> kLowBits);
        low[at + t] = static_cast<std::int16_t>(fixed & ((1 << kLowBits) - 1));
    }
}

// Positions count from the first input that carries weight, and the inputs from the axis's own start.
void AxisFilter::settle(const Axis& axis) {
    if (axis.mirrored) std::ranges::reverse(start);
    for (std::int32_t& position : start) position -= first;
    first += axis.reach_first;
    end += axis.reach_first;
}

}  // namespace trainload
