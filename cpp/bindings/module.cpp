// The extension module: every file of bindings/ adds its names here. No logic.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_decode(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_jpeg_segments(nb::module_& module);
void bind_shared_counts(nb::module_& module);
void bind_shuffle(nb::module_& module);

NB_MODULE(_core, module) {
    module.doc() = "JPEG region decode, resample, normalise; byte shuffle: no I/O, no threads, no Python objects held.";
#ifdef NDEBUG  // a worker may end with its data set alive (a daemon thread, torch's worker loop): no fault of anyone's
    nb::set_leak_warnings(false);
#endif
    bind_decode(module);
    bind_pipeline(module);
    bind_jpeg_segments(module);
    bind_shared_counts(module);
    bind_shuffle(module);
}
