#include "core/stage.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace trainload {
namespace {

constexpr std::size_t kPadding = 64;  // what the kernels may read or write beyond a row

int ceil_div(int value, int divisor) {
    return (value + divisor - 1) / divisor;
}

// The position in [0, size) whose pixel stands at `position` outside of it, as numpy.pad has it; -1: the constant.
int padded_position(int position, int size, Padding padding) {
    if (position >= 0 && position < size) return position;
    if (padding == Padding::constant) return -1;
    if (padding == Padding::edge || size == 1) return std::clamp(position, 0, size - 1);
    const int period = padding == Padding::reflect ? 2 * size - 2 : 2 * size;
    const int place = (position % period + period) % period;
    return place < size ? place : (padding == Padding::reflect ? period : period - 1) - place;
}

}  // namespace

Box StageRunner::visible(const Stage& stage) {
    if (!stage.pads()) return stage.window;
    if (stage.padding != Padding::constant) return {0, 0, stage.scaled.width, stage.scaled.height};
    const int left = std::max(0, stage.window.x), top = std::max(0, stage.window.y);
    const int right = std::min(stage.scaled.width, stage.window.x + stage.window.width);
    const int bottom = std::min(stage.scaled.height, stage.window.y + stage.window.height);
    return {left, top, std::max(0, right - left), std::max(0, bottom - top)};
}

std::size_t StageRunner::memory_of(const Stage& stage) {
    const Box part = visible(stage);
    const double stretch = std::max(1.0, static_cast<double>(stage.box.height) / stage.scaled.height);
    const double support = std::max(1.0, support_of(stage.filter));
    const auto reach =
        static_cast<std::int64_t>(std::min((part.height + 4 * support) * stretch, stage.box.height * 2.0 * support));
    return static_cast<std::size_t>((std::int64_t{part.width} * 3 + kPadding) * reach);
}

Box StageRunner::begin(const Stage& stage, int denominator, bool mirror_x, bool mirror_y) {
    const Box part = visible(stage), box = stage.box, reach = stage.reach;
    const double d = denominator;
    columns_.build({reach.x / denominator, ceil_div(reach.x + reach.width, denominator), box.x / d,
                    (box.x + box.width) / d, stage.scaled.width, part.x, part.x + part.width, mirror_x, stage.filter},
                   AxisFilter::kColumnStep);
    rows_.build({reach.y / denominator, ceil_div(reach.y + reach.height, denominator), box.y / d,
                 (box.y + box.height) / d, stage.scaled.height, part.y, part.y + part.height, mirror_y, stage.filter},
                AxisFilter::kRowStep);
    stride_ = static_cast<std::size_t>(columns_.outputs) * 3 + kPadding;
    // Taps with no weight read beyond the last row; what they read does not count.
    grow_anew(between_, stride_ * static_cast<std::size_t>(rows_.end - rows_.first + rows_.taps));
    grow_anew(spare_, stride_ * Kernels::kRowsAtOnce);
    return {columns_.first, rows_.first, columns_.end - columns_.first, rows_.end - rows_.first};
}

void StageRunner::rows(const std::uint8_t* const* rows, int first, int count) {
    for (int group = 0; group < count; group += Kernels::kRowsAtOnce) {
        std::array<const std::uint8_t*, Kernels::kRowsAtOnce> in;
        std::array<std::uint8_t*, Kernels::kRowsAtOnce> out;
        for (int k = 0; k < Kernels::kRowsAtOnce; ++k) {
            const bool real = group + k < count;
            in[k] = rows[real ? group + k : group];
            out[k] = real ? between_.data() + stride_ * static_cast<std::size_t>(first + group + k)
                          : spare_.data() + stride_ * static_cast<std::size_t>(k);
        }
        kernels_->columns(columns_, in.data(), out.data());
    }
}

void StageRunner::rows_of(PictureView source, Box region) {
    const std::size_t stride = static_cast<std::size_t>(region.width) * 4 + kPadding;
    grow_anew(expanded_, stride * kMaxRows);
    std::array<const std::uint8_t*, kMaxRows> starts;
    for (int first = 0; first < region.height; first += kMaxRows) {
        const int count = std::min(kMaxRows, region.height - first);
        for (int i = 0; i < count; ++i) {
            std::uint8_t* const row = expanded_.data() + stride * static_cast<std::size_t>(i);
            kernels_->four_channels(source.row(region.y + first + i) + region.x * 3, region.width, row);
            starts[i] = row;
        }
        rows(starts.data(), first, count);
    }
}

void StageRunner::finish(WindowSink& sink) {
    const int bytes = columns_.outputs * 3;
    for (int y = 0; y < rows_.outputs; ++y) {
        const std::uint8_t* const in = between_.data() + stride_ * static_cast<std::size_t>(rows_.start[y]);
        std::uint8_t* const out = sink.room(y);
        const std::size_t weights = static_cast<std::size_t>(y) * rows_.taps;
        if (rows_.copies)
            std::memcpy(out, in, static_cast<std::size_t>(bytes));
        else
            kernels_->row(in, stride_, rows_.high.data() + weights, rows_.low.data() + weights, rows_.taps, out, bytes);
        sink.row(y, out);
    }
}

void pad_window(const Stage& stage, PictureView visible, PictureView window) {
    const Box part = StageRunner::visible(stage);
    for (int y = 0; y < window.height; ++y) {
        const int from_y = padded_position(stage.window.y + y, stage.scaled.height, stage.padding);
        std::uint8_t* const out = window.row(y);
        for (int x = 0; x < window.width; ++x) {
            const int from_x = padded_position(stage.window.x + x, stage.scaled.width, stage.padding);
            const std::uint8_t* const pixel =
                from_x < 0 || from_y < 0 ? stage.fill.data() : visible.row(from_y - part.y) + (from_x - part.x) * 3;
            std::memcpy(out + x * 3, pixel, 3);
        }
    }
}

}  // namespace trainload
