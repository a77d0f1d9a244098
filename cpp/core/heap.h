// Memory that was freed goes back to the system. glibc keeps it, for each thread apart: after a large picture on each
// of them that would be as many large pictures.
#pragma once

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace trainload {

inline void give_back_freed_memory() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace trainload
