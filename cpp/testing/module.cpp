// The module of what only tests and benchmarks ask of the core; it stands beside the package and is in no wheel.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_decode(nb::module_& module);
void bind_philox(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_pixel_ops(nb::module_& module);
void bind_policies(nb::module_& module);

NB_MODULE(_core_testing, module) {
    module.doc() = "Parts of the core one by one, for tests and benchmarks.";
    nb::module_::import_("trainload._core");  // its classes
    bind_decode(module);
    bind_philox(module);
    bind_pipeline(module);
    bind_pixel_ops(module);
    bind_policies(module);
}
