#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "core/stage.h"
#include "testing/kernels.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

namespace {

NewRgbArray decode_region(const ByteArray& data, int x, int y, int width, int height, int denominator, bool splices) {
    if (width < 1) throw nb::value_error("the region has no pixels");
    if (denominator != 1 && denominator != 2 && denominator != 4) throw nb::value_error("denominator is 1, 2 or 4");
    return decoded(data, {{x, y, width, height}, denominator, splices});
}

// Keeps the rows of a window.
class PixelsSink final : public WindowSink {
  public:
    explicit PixelsSink(Pixels& pixels) : pixels_(pixels) {}
    std::uint8_t* room(int y) override {
        return pixels_.bytes.data() + static_cast<std::size_t>(y) * pixels_.size.width * 3;
    }
    void row(int, const std::uint8_t*) override {}

  private:
    Pixels& pixels_;
};

void check_inside(Box box, const RgbArray& pixels) {
    if (box.x < 0 || box.y < 0 || box.width < 1 || box.height < 1 ||
        box.x > static_cast<int>(pixels.shape(1)) - box.width || box.y > static_cast<int>(pixels.shape(0)) - box.height)
        throw nb::value_error("the region lies outside of the picture");
}

NewRgbArray resample(const RgbArray& pixels, std::array<int, 4> box, int width, int height, const std::string& name,
                     const std::string& filter_name) {
    if (width < 1 || height < 1 || width > 65535 || height > 65535) throw nb::value_error("sides are 1 to 65535");
    const Kernels& kernels = checked_kernels(name);
    const Filter filter = filter_called(filter_name);
    const auto source_width = static_cast<int>(pixels.shape(1)), source_height = static_cast<int>(pixels.shape(0));
    const Box part{box[0], box[1], box[2], box[3]};
    check_inside(part, pixels);
    // A PictureView may be written; resampling only reads it.
    const PictureView source{const_cast<std::uint8_t*>(pixels.data()), source_width, source_height,
                             static_cast<std::size_t>(source_width) * 3};
    const Size size{width, height};
    Pixels made{size, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * height * 3)};
    {
        const nb::gil_scoped_release unlocked;
        const Box all{0, 0, source.width, source.height}, window{0, 0, width, height};
        const Stage stage{{source.width, source.height}, all, part, size, window, Padding::constant, {}, filter};
        PixelsSink sink(made);
        StageRunner runner(kernels);
        runner.rows_of(source, runner.begin(stage, 1, false, false));
        runner.finish(sink);
    }
    return to_array(std::move(made));
}

std::vector<std::string> kernel_names() {
    std::vector<std::string> names;
    for (const Kernels* set : all_kernels()) names.emplace_back(set->name);
    return names;
}

}  // namespace

void bind_decode(nb::module_& module) {
    module.def("decode_region", &decode_region, nb::arg("data"), nb::arg("x"), nb::arg("y"), nb::arg("width"),
               nb::arg("height"), nb::arg("denominator") = 1, nb::arg("splices") = true,
               "A part of the picture (scaled down by `denominator`) as RGB.");
    module.def("resample", &resample, nb::arg("pixels"), nb::arg("box"), nb::arg("width"), nb::arg("height"),
               nb::arg("kernels") = "", nb::arg("filter") = "bilinear",
               "The box (x, y, width, height) of an RGB picture at another size, antialiased but for `nearest`.");
    module.def("kernel_names", &kernel_names, "The instruction sets that this processor runs, the fastest last.");
}
