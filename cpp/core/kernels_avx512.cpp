#include "core/kernels.h"

namespace trainload {

const Kernels* avx512_kernels() {
    return nullptr;
}

}  // namespace trainload
