// Which instruction sets kernels are compiled for. The first include of every file that compiles kernels, so that all
// of them have the same.
#pragma once

// What adds compile time and no bits: sets between the ones offered (SSE), above them without gain here (newer
// AVX-512; NEON with AES or bfloat16, where Highway tells it from NEON without), and vectors whose size the compiler
// does not know (SVE), which cannot be in arrays.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                              \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | (HWY_NEON_WITHOUT_AES ? HWY_NEON | HWY_NEON_BF16 : 0))
#endif

#include <hwy/detect_targets.h>
// Names that a version of Highway lacks.
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif
#ifndef HWY_NEON_WITHOUT_AES
#define HWY_NEON_WITHOUT_AES 0
#endif
#ifndef HWY_NEON_BF16
#define HWY_NEON_BF16 0
#endif
