// Marks a function whose plain loops the compiler may vectorise: built twice, for AVX2 and for every x86-64 machine,
// and chosen at run time. Both give the same bits: nothing is contracted or reordered.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TRAINLOAD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TRAINLOAD_CLONES
#endif
