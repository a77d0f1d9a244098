#include "core/policies.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

using namespace trainload;

namespace {

using NamedStep = std::tuple<std::string, double, int>;

std::vector<std::array<NamedStep, 2>> named_policy(int policy) {
    const auto named = [](const PolicyStep& step) {
        const auto name = augmentation_names[static_cast<std::size_t>(step.augmentation)];
        return NamedStep{std::string(name), step.probability, step.bin};
    };
    std::vector<std::array<NamedStep, 2>> pairs;
    for (const auto& pair : learned_policy(policy)) {
        pairs.push_back({named(pair[0]), named(pair[1])});
    }
    return pairs;
}

}  // namespace

void bind_policies(nb::module_& module) {
    module.def("learned_policy", &named_policy, nb::arg("policy"),
               "AutoAugment's 25 pairs of (augmentation, probability, bin or -1): 0 ImageNet, 1 CIFAR-10, 2 SVHN.");
}
