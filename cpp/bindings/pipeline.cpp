#include "core/pipeline.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bindings/slices.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

namespace {

using OpTuple = std::tuple<std::string, std::uint32_t, std::vector<double>>;
using Pictures = nb::ndarray<const std::uint8_t, nb::shape<-1, -1, -1, 3>, nb::c_contig, nb::device::cpu>;
using Batch = nb::ndarray<nb::c_contig, nb::device::cpu>;

template <typename Value, std::size_t N>
Value choose(const std::string& text, const std::array<std::pair<const char*, Value>, N>& choices, const char* what) {
    for (const auto& [name, value] : choices)
        if (text == name) return value;
    throw nb::value_error((std::string(what) + " cannot be '" + text + "'").c_str());
}

OpSpec to_spec(const OpTuple& op) {
    const auto& [kind, index, parameters] = op;
    OpSpec spec{op_kind(kind), index, {}};
    if (parameters.size() > spec.parameters.size()) throw nb::value_error("an operation has at most 16 parameters");
    std::ranges::copy(parameters, spec.parameters.begin());
    return spec;
}

std::array<double, 3> to_triple(const std::vector<double>& values, double absent) {
    if (values.empty()) return {absent, absent, absent};
    if (values.size() != 3) throw nb::value_error("mean and std are three numbers each, or none");
    return {values[0], values[1], values[2]};
}

Pipeline make_pipeline(const std::vector<OpTuple>& ops, int width, int height, const std::string& out,
                       const std::string& layout, const std::vector<double>& mean, const std::vector<double>& std,
                       const std::string& dct_scale, PictureLimits limits) {
    if (width < 1 || height < 1 || width > 65535 || height > 65535) throw nb::value_error("sides are 1 to 65535");
    const std::array<std::pair<const char*, OutputType>, 3> types{
        {{"uint8", OutputType::uint8}, {"float32", OutputType::float32}, {"float16", OutputType::float16}}};
    const std::array<std::pair<const char*, OutputLayout>, 3> layouts{
        {{"NHWC", OutputLayout::nhwc}, {"NCHW", OutputLayout::nchw}, {"NHWC4", OutputLayout::nhwc4}}};
    const std::array<std::pair<const char*, DctScale>, 2> scales{
        {{"off", DctScale::off}, {"auto", DctScale::automatic}}};
    std::vector<OpSpec> specs;
    std::ranges::transform(ops, std::back_inserter(specs), to_spec);
    return Pipeline(std::move(specs),
                    {choose(out, types, "out"), choose(layout, layouts, "layout"), width, height, to_triple(mean, 0),
                     to_triple(std, 1)},
                    choose(dct_scale, scales, "dct_scale"), limits);
}

void check_batch(const Batch& out, const OutputFormat& format, std::size_t pictures) {
    if (out.nbytes() != pictures * format.picture_bytes() || out.itemsize() != format.item_bytes())
        throw nb::value_error("out does not have the size of the pictures");
}

void run(const Pipeline& pipeline, Scratch& scratch, const ByteArray& arena, const Indices& offsets,
         const Indices& sizes, const Indices& ids, std::uint64_t seed, std::uint32_t epoch, const Batch& out,
         const Codes& codes, EntryPointStore* entry_points, const DrawNumbers& draws) {
    auto* const made = static_cast<std::byte*>(out.data());
    const Slice slice = to_slice(arena, offsets, sizes, ids, made, codes, entry_points, draws);
    check_batch(out, pipeline.format(), ids.size());
    const nb::gil_scoped_release unlocked;
    pipeline.run(scratch, slice, seed, epoch);
}

void run_pixels(const Pipeline& pipeline, Scratch& scratch, const Pictures& pixels, const Indices& rows,
                const Indices& ids, std::uint64_t seed, std::uint32_t epoch, const Batch& out,
                const DrawNumbers& draws) {
    const std::size_t count = ids.size();
    const std::span<const std::uint32_t> numbers = to_span(draws, count);
    if (rows.size() != count) throw nb::value_error("rows and ids have one entry per picture");
    check_batch(out, pipeline.format(), count);
    const auto height = static_cast<int>(pixels.shape(1)), width = static_cast<int>(pixels.shape(2));
    if (height < 1 || width < 1) throw nb::value_error("the pictures have no pixels");
    const std::uint64_t have = pixels.shape(0);
    if (std::any_of(rows.data(), rows.data() + count, [&](std::uint64_t row) { return row >= have; }))
        throw nb::index_error("a row lies outside of the pixels");
    const std::size_t stride = static_cast<std::size_t>(width) * 3, picture = stride * static_cast<std::size_t>(height);
    auto* const start = const_cast<std::uint8_t*>(pixels.data());  // a PictureView may be written; this one is not
    auto* const made = static_cast<std::byte*>(out.data());
    const nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < count; ++i)
        pipeline.run_pixels(scratch, {start + picture * rows.data()[i], width, height, stride},
                            {seed, epoch, ids.data()[i], numbers.empty() ? 0 : numbers[i]},
                            made + i * pipeline.format().picture_bytes());
}

}  // namespace

void bind_pipeline(nb::module_& module) {
    nb::exception<GeometryError>(module, "GeometryError", PyExc_ValueError);
    nb::class_<Scratch>(module, "Scratch", "What one thread keeps from picture to picture.")
        .def(nb::init<>())
        .def_prop_ro(
            "messages", [](const Scratch& scratch) { return scratch.messages; },
            "Why pictures of the last slice were not good: (position, reason).")
        .def_prop_ro(
            "needs", [](const Scratch& scratch) { return scratch.needs; },
            "What pictures of the last slice take that were too large: (position, bytes).");
    nb::class_<EntryPointStore>(module, "EntryPointStore",
                                "Where decoding may begin inside of the pictures of one set; shared by all threads.")
        .def(nb::init<std::size_t>(), nb::arg("budget_bytes"));
    nb::class_<Pipeline>(module, "Pipeline", "Operations and an output format; shared by all threads.")
        .def(
            "__init__",
            [](Pipeline* self, const std::vector<OpTuple>& ops, int width, int height, const std::string& out,
               const std::string& layout, const std::vector<double>& mean, const std::vector<double>& std,
               const std::string& dct_scale, std::int64_t most_pixels, std::size_t most_bytes) {
                const PictureLimits limits{most_pixels, most_bytes};
                new (self) Pipeline(make_pipeline(ops, width, height, out, layout, mean, std, dct_scale, limits));
            },
            nb::arg("ops"), nb::arg("width"), nb::arg("height"), nb::arg("out"), nb::arg("layout"), nb::arg("mean"),
            nb::arg("std"), nb::arg("dct_scale"), nb::arg("most_pixels") = std::numeric_limits<std::int64_t>::max(),
            nb::arg("most_bytes") = std::numeric_limits<std::size_t>::max())
        .def("run", &run, nb::arg("scratch"), nb::arg("arena"), nb::arg("offsets"), nb::arg("sizes"), nb::arg("ids"),
             nb::arg("seed"), nb::arg("epoch"), nb::arg("out").noconvert(), nb::arg("codes").noconvert(),
             nb::arg("entry_points").none() = nb::none(), nb::arg("draws").none() = nb::none(),
             "Decodes pictures that lie in `arena` into out[i], if codes[i] is 0 on entry; others are skipped. "
             "codes[i] becomes: 0 good, 1 needs another decoder, 2 corrupt, 3 takes more memory than `most_bytes`. "
             "entry_points: known and kept by id; they save time and change no result. draws: how often the epoch has "
             "had each sample before; left out: never.")
        .def("run_pixels", &run_pixels, nb::arg("scratch"), nb::arg("pixels"), nb::arg("rows"), nb::arg("ids"),
             nb::arg("seed"), nb::arg("epoch"), nb::arg("out").noconvert(), nb::arg("draws").none() = nb::none(),
             "The same for pictures that are already decoded: pixels[rows[i]] becomes out[i].");
}
