// Counters in memory that several processes share: each addition is one atomic step, without a lock that could be left
// behind by a process that was killed.
#pragma once

#include <cstdint>

namespace trainload {

// Adds 1 and returns what was there before.
inline std::uint32_t count_up(std::uint32_t& count) {
    return __atomic_fetch_add(&count, 1U, __ATOMIC_RELAXED);
}

}  // namespace trainload
