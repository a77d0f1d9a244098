#include "core/kernels.h"

namespace trainload {

const std::vector<const Kernels*>& all_kernels() {
    static const std::vector<const Kernels*> found = [] {
        std::vector<const Kernels*> sets;
        for (const Kernels* set : {plain_kernels(), neon_kernels(), avx2_kernels(), avx512_kernels()})
            if (set != nullptr) sets.push_back(set);
        return sets;
    }();
    return found;
}

const Kernels* kernels_called(std::string_view name) {
    if (name.empty()) return &best_kernels();
    for (const Kernels* set : all_kernels())
        if (name == set->name) return set;
    return nullptr;
}

const Kernels& best_kernels() {
    static const Kernels& best = *all_kernels().back();
    return best;
}

}  // namespace trainload
