#include "core/pixel_ops.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/policies.h"

namespace nb = nanobind;

using namespace trainload;

namespace {

using Pixels = nb::ndarray<std::uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

PictureView view(Pixels& pixels) {
    const std::size_t height = pixels.shape(0), width = pixels.shape(1);
    if (height < 1 || width < 1 || height > 65535 || width > 65535) throw nb::value_error("sides are 1 to 65535");
    return {pixels.data(), static_cast<int>(width), static_cast<int>(height), width * 3};
}

OpSpec spec_from(const std::string& kind, std::uint32_t index, const std::vector<double>& parameters) {
    OpSpec op{op_kind(kind), index, {}};
    if (parameters.size() > op.parameters.size()) throw nb::value_error("at most 16 parameters");
    std::copy(parameters.begin(), parameters.end(), op.parameters.begin());
    return op;
}

Augmentation augmentation_from(const std::string& name) {
    for (std::size_t i = 0; i < augmentation_names.size(); ++i) {
        if (augmentation_names[i] == name) return static_cast<Augmentation>(i);
    }
    throw nb::value_error("no such augmentation");
}

void run_pixel_op(Pixels pixels, const std::string& kind, std::uint32_t index, const std::vector<double>& parameters,
                  std::uint64_t seed, std::uint32_t epoch, std::uint64_t sample) {
    const OpSpec op = spec_from(kind, index, parameters);
    Draws draws(seed, epoch, sample, index);
    OpScratch scratch;
    const PictureView picture = view(pixels);
    nb::gil_scoped_release unlocked;
    apply_pixel_op(op, draws, picture, scratch);
}

void run_augmentation(Pixels pixels, const std::string& name, double magnitude, bool bilinear, Rgb fill) {
    const Sampling sampling{bilinear ? Interpolation::bilinear : Interpolation::nearest, fill};
    const Augmentation augmentation = augmentation_from(name);
    OpScratch scratch;
    const PictureView picture = view(pixels);
    nb::gil_scoped_release unlocked;
    augment(picture, augmentation, magnitude, sampling, scratch);
}

}  // namespace

void bind_pixel_ops(nb::module_& module) {
    module.def("apply_pixel_op", &run_pixel_op, nb::arg("pixels").noconvert(), nb::arg("kind"), nb::arg("index"),
               nb::arg("parameters"), nb::arg("seed"), nb::arg("epoch"), nb::arg("sample"),
               "Run one pixel operation or flip on uint8[h, w, 3], in place, with the draws of (seed, epoch, sample, "
               "index).");
    module.def("augment", &run_augmentation, nb::arg("pixels").noconvert(), nb::arg("name"), nb::arg("magnitude"),
               nb::arg("bilinear") = false, nb::arg("fill") = Rgb{0, 0, 0},
               "Run one named augmentation of RandAugment or AutoAugment on uint8[h, w, 3], in place.");
    module.def(
        "augmentation_magnitude",
        [](const std::string& name, int bin, int bins, int width, int height) {
            return magnitude_of(augmentation_from(name), bin, bins, width, height);
        },
        nb::arg("name"), nb::arg("bin"), nb::arg("bins"), nb::arg("width"), nb::arg("height"),
        "Magnitude of a bin, without sign; 0 where the augmentation has none.");
}
