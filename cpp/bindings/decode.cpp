#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bindings/arrays.h"
#include "core/jpeg_splice.h"
#include "core/kernels.h"
#include "core/stage.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

namespace {

// Collects a region as packed RGB.
class RegionPixels final : public RowSink {
  public:
    RegionPixels(int width, int height) : width_(width) { pixels.resize(static_cast<std::size_t>(width) * height * 3); }
    void rows(const std::uint8_t* const* rows, int first, int count) override {
        for (int y = 0; y < count; ++y)
            for (int x = 0; x < width_; ++x)
                std::memcpy(&pixels[(static_cast<std::size_t>(first + y) * width_ + x) * 3], rows[y] + x * 4, 3);
    }
    std::vector<std::uint8_t> pixels;

  private:
    int width_;
};

NewRgbArray decode(const ByteArray& data, Box region, int denominator, bool splices) {
    const Bytes jpeg{data.data(), data.size()};
    JpegHeader header;
    if (!parse_jpeg_header(jpeg, header) || !is_decodable(header))
        throw nb::value_error("not an 8-bit gray or three-colour JPEG");
    if (denominator != 1 && denominator != 2 && denominator != 4) throw nb::value_error("denominator is 1, 2 or 4");
    const int width = (header.width + denominator - 1) / denominator;
    const int height = (header.height + denominator - 1) / denominator;
    if (region.width == 0) region = {0, 0, width, height};
    if (region.x < 0 || region.y < 0 || region.width < 1 || region.height < 1 || region.x > width - region.width ||
        region.y > height - region.height)
        throw nb::value_error("the region lies outside of the picture");
    RegionPixels sink(region.width, region.height);
    RegionDecoder decoder;
    JpegSplicer splicer;
    const Verdict verdict = splices ? decode_region(decoder, splicer, jpeg, header, region, denominator, sink)
                                    : decoder.decode(jpeg, header, region, denominator, sink);
    if (verdict != Verdict::good) throw nb::value_error(decoder.message());
    return to_array(std::move(sink.pixels), region.width, region.height);
}

NewRgbArray resample(const RgbArray& pixels, std::vector<int> box, int width, int height, const std::string& kernels) {
    const Size size{static_cast<int>(pixels.shape(1)), static_cast<int>(pixels.shape(0))};
    if (box.size() != 4 || box[0] < 0 || box[1] < 0 || box[2] < 1 || box[3] < 1 || box[0] > size.width - box[2] ||
        box[1] > size.height - box[3] || width < 1 || height < 1 || width > 65535 || height > 65535)
        throw nb::value_error("the box lies outside of the picture, or a side is not 1 to 65535");
    const Stage stage{size,
                      {0, 0, size.width, size.height},
                      {box[0], box[1], box[2], box[3]},
                      {width, height},
                      {0, 0, width, height},
                      Padding::constant,
                      {}};
    std::vector<std::uint8_t> made(static_cast<std::size_t>(width) * height * 3);
    struct Rows final : WindowSink {
        std::uint8_t* start;
        std::size_t stride;
        std::uint8_t* room(int y) override { return start + stride * y; }
        void row(int, const std::uint8_t*) override {}
    } sink;
    sink.start = made.data();
    sink.stride = static_cast<std::size_t>(width) * 3;
    StageRunner runner(checked_kernels(kernels));
    const Box region = runner.begin(stage, 1, false, false);
    runner.rows_of(
        {const_cast<std::uint8_t*>(pixels.data()), size.width, size.height, static_cast<std::size_t>(size.width) * 3},
        region);
    runner.finish(sink);
    return to_array(std::move(made), width, height);
}

}  // namespace

void bind_decode(nb::module_& module) {
    module.def(
        "decode_jpeg", [](const ByteArray& data) { return decode(data, {0, 0, 0, 0}, 1, false); }, nb::arg("data"),
        "The whole picture as RGB: uint8[height, width, 3].");
    module.def(
        "decode_region",
        [](const ByteArray& data, int x, int y, int width, int height, int denominator, bool splices) {
            if (width < 1) throw nb::value_error("the region has no pixels");
            return decode(data, {x, y, width, height}, denominator, splices);
        },
        nb::arg("data"), nb::arg("x"), nb::arg("y"), nb::arg("width"), nb::arg("height"), nb::arg("denominator") = 1,
        nb::arg("splices") = true, "A part of the picture (scaled down by `denominator`) as RGB.");
    module.def("resample", &resample, nb::arg("pixels"), nb::arg("box"), nb::arg("width"), nb::arg("height"),
               nb::arg("kernels") = "",
               "The box (x, y, width, height) of an RGB picture at another size, antialiased.");
    module.def("kernel_names", [] {
        std::vector<std::string> names;
        for (const Kernels* set : all_kernels()) names.emplace_back(set->name);
        return names;
    });
}
