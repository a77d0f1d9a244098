// Marks a function whose plain loops the compiler may vectorise: built twice, for AVX2 and for every x86-64 machine,
// and chosen at run time. Both give the same bits: nothing is contracted or reordered. ThreadSanitizer starts after
// that choice is made, and would crash in it.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define TRAINLOAD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TRAINLOAD_CLONES
#endif
