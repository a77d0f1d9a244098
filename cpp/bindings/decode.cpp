#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "bindings/arrays.h"
#include "core/heap.h"
#include "core/pixels.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

namespace {

NewRgbArray decode(const ByteArray& data, const DecodeRequest& request) {
    Pixels pixels;
    std::string message;
    Verdict verdict;
    {
        const nb::gil_scoped_release unlocked;
        verdict = decode_pixels({data.data(), data.size()}, request, pixels, message);
    }
    if (verdict != Verdict::good) throw nb::value_error(message.c_str());
    return to_array(std::move(pixels));
}

NewRgbArray decode_part(const ByteArray& data, int x, int y, int width, int height, int denominator, bool splices) {
    if (width < 1) throw nb::value_error("the region has no pixels");
    if (denominator != 1 && denominator != 2 && denominator != 4) throw nb::value_error("denominator is 1, 2 or 4");
    return decode(data, {{x, y, width, height}, denominator, splices});
}

NewRgbArray resample(const RgbArray& pixels, std::array<int, 4> box, int width, int height, const std::string& name) {
    if (width < 1 || height < 1 || width > 65535 || height > 65535) throw nb::value_error("sides are 1 to 65535");
    const Kernels& kernels = checked_kernels(name);
    const auto source_width = static_cast<int>(pixels.shape(1)), source_height = static_cast<int>(pixels.shape(0));
    // A PictureView may be written; resampling only reads it.
    const PictureView source{const_cast<std::uint8_t*>(pixels.data()), source_width, source_height,
                             static_cast<std::size_t>(source_width) * 3};
    Pixels made;
    {
        const nb::gil_scoped_release unlocked;
        made = resample_pixels(kernels, source, {box[0], box[1], box[2], box[3]}, {width, height});
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
    module.def(
        "decode_jpeg", [](const ByteArray& data) { return decode(data, {{0, 0, 0, 0}, 1, false}); }, nb::arg("data"),
        "The whole picture as RGB: uint8[height, width, 3]. ValueError where it is not good.");
    module.def("decode_region", &decode_part, nb::arg("data"), nb::arg("x"), nb::arg("y"), nb::arg("width"),
               nb::arg("height"), nb::arg("denominator") = 1, nb::arg("splices") = true,
               "A part of the picture (scaled down by `denominator`) as RGB.");
    module.def("resample", &resample, nb::arg("pixels"), nb::arg("box"), nb::arg("width"), nb::arg("height"),
               nb::arg("kernels") = "",
               "The box (x, y, width, height) of an RGB picture at another size, antialiased.");
    module.def("give_back_freed_memory", &give_back_freed_memory, nb::call_guard<nb::gil_scoped_release>(),
               "What this process has freed goes back to the system, where the C library keeps it.");
    module.def("kernel_names", &kernel_names, "The instruction sets that this processor runs, the fastest last.");
}
