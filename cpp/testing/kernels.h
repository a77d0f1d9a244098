// Sets of kernels by their names.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/kernels.h"

namespace trainload::bindings {

// The loops of that name ("": the fastest), or a ValueError.
inline const Kernels& checked_kernels(const std::string& name) {
    const Kernels* const kernels = kernels_called(name);
    if (kernels == nullptr) throw nanobind::value_error(("no kernels are called '" + name + "' here").c_str());
    return *kernels;
}

}  // namespace trainload::bindings
