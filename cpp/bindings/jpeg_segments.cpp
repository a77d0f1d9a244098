#include "core/jpeg_segments.h"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bindings/arrays.h"

namespace nb = nanobind;
using namespace trainload;
using bindings::ByteArray;

namespace {

// With the bytes that it walks over.
struct Walk {
    ByteArray data;
    JpegSegments segments;

    Walk(const ByteArray& bytes, std::size_t most_stray)
        : data(bytes), segments({bytes.data(), bytes.size()}, most_stray) {}

    std::tuple<std::uint8_t, std::size_t, std::size_t> next() {
        JpegSegment segment;
        if (!segments.next(segment)) throw nb::stop_iteration();
        return {segment.marker, segment.start, segment.end};
    }
};

}  // namespace

void bind_jpeg_segments(nb::module_& module) {
    nb::class_<Walk>(module, "JpegSegments",
                     "(marker, start, end) of each segment of a JPEG up to its first scan's header; see "
                     "core/jpeg_segments.h.")
        .def(nb::init<const ByteArray&, std::size_t>(), nb::arg("data"), nb::arg("most_stray") = 0)
        .def(
            "__iter__", [](nb::handle self) { return nb::borrow<nb::object>(self); },
            nb::sig("def __iter__(self) -> JpegSegments"))
        .def("__next__", &Walk::next);
}
