// Every set of kernels that this processor runs gives the bits of the plain one; for machines where the Python tests do
// not run, such as an emulated ARM. Needs no libjpeg: kernels*.cpp and resample.cpp are enough.
#include <cstdio>
#include <random>
#include <vector>

#include "core/kernels.h"

namespace {

using namespace trainload;
using Pixels = std::vector<std::uint8_t>;

// Everything a set makes of random pixels of one width, one after the other.
template <typename Number>
void append(Pixels& made, const std::vector<Number>& numbers) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
    made.insert(made.end(), bytes, bytes + numbers.size() * sizeof(Number));
}

Pixels all_outputs(const Kernels& kernels, Filter filter, int inputs, int outputs, const Pixels& source) {
    Pixels made;
    AxisFilter columns, rows;
    columns.build({0, inputs, 0.0, double(inputs), outputs, 0, outputs, false, filter}, AxisFilter::kColumnStep);
    rows.build({0, 16, 1.5, 13.25, 7, 0, 7, true, filter}, AxisFilter::kRowStep);
    const std::size_t in_stride = inputs * 4 + 64, out_stride = outputs * 3 + 64;
    Pixels between(out_stride * 24);
    for (int y = 0; y < 16; y += 4) {
        const std::uint8_t* in[4];
        std::uint8_t* out[4];
        for (int k = 0; k < 4; ++k) in[k] = &source[in_stride * (y + k)], out[k] = &between[out_stride * (y + k)];
        kernels.columns(columns, in, out);
    }
    Pixels row(outputs * 3);
    for (int y = 0; y < rows.outputs; ++y) {
        const std::size_t weights = static_cast<std::size_t>(y) * rows.taps;
        kernels.row(&between[out_stride * (rows.first + rows.start[y])], out_stride, &rows.high[weights],
                    &rows.low[weights], rows.taps, row.data(), outputs * 3);
        append(made, row);
    }
    Pixels planes(outputs * 3), four(outputs * 4);
    kernels.planes(row.data(), outputs, &planes[0], &planes[outputs], &planes[2 * outputs]);
    kernels.four_channels(row.data(), outputs, four.data());
    std::vector<float> scale(row.size()), offset(row.size()), floats(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) scale[i] = 0.0171F * (i % 3 + 1), offset[i] = -2.1F + 0.3F * (i % 3);
    std::vector<std::uint16_t> halves(row.size());
    kernels.floats(row.data(), scale.data(), offset.data(), outputs * 3, floats.data());
    kernels.halves(row.data(), scale.data(), offset.data(), outputs * 3, halves.data());
    append(made, planes);
    append(made, four);
    append(made, floats);
    append(made, halves);
    return made;
}

}  // namespace

int main() {
    std::mt19937 random(1);
    for (int round = 0; round < 1000; ++round) {
        const int inputs = 1 + static_cast<int>(random() % 300), outputs = 1 + static_cast<int>(random() % 200);
        Pixels source((inputs * 4 + 64) * 16);
        // Every second time black and white: then sums go beyond 0 .. 255 where weights are negative.
        for (std::uint8_t& byte : source) byte = static_cast<std::uint8_t>(round % 2 ? random() % 2 * 255 : random());
        const auto filter = static_cast<Filter>(round % filter_names.size());
        const Pixels expected = all_outputs(*plain_kernels(), filter, inputs, outputs, source);
        for (const Kernels* kernels : all_kernels())
            if (all_outputs(*kernels, filter, inputs, outputs, source) != expected)
                return std::printf("%s differs from %d to %d pixels, %s\n", kernels->name, inputs, outputs,
                                   filter_names[round % filter_names.size()].data()),
                       1;
    }
    for (const Kernels* kernels : all_kernels()) std::printf("%s: the same bits\n", kernels->name);
}
