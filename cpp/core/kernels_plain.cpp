#include "core/kernels_plain.h"

namespace trainload {
namespace {

void columns(const AxisFilter& filter, const std::uint8_t* const* in, std::uint8_t* const* out) {
    for (int k = 0; k < Kernels::kRowsAtOnce; ++k)
        for (int i = 0; i < filter.outputs; ++i) plain::column(filter, in[k], out[k], i);
}

void row(const std::uint8_t* in, std::size_t stride, const std::int16_t* high, const std::int16_t* low, int taps,
         std::uint8_t* out, int count) {
    plain::row_from(in, stride, high, low, taps, out, 0, count);
}

void planes(const std::uint8_t* rgb, int pixels, std::uint8_t* red, std::uint8_t* green, std::uint8_t* blue) {
    plain::planes_from(rgb, 0, pixels, red, green, blue);
}

void four_channels(const std::uint8_t* rgb, int pixels, std::uint8_t* rgb0) {
    plain::four_channels_from(rgb, 0, pixels, rgb0);
}

void floats(const std::uint8_t* in, const float* scale, const float* offset, int count, float* out) {
    plain::floats_from(in, scale, offset, 0, count, out);
}

void halves(const std::uint8_t* in, const float* scale, const float* offset, int count, std::uint16_t* out) {
    plain::halves_from(in, scale, offset, 0, count, out);
}

}  // namespace

const Kernels* plain_kernels() {
    static const Kernels kernels{"plain", columns, row, planes, four_channels, floats, halves};
    return &kernels;
}

}  // namespace trainload
