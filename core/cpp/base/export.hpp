// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Libraries are built with hidden visibility; what other binaries need is marked with this.
#define HCTR_API __attribute__((visibility("default")))

/// Marks the per-element formulas that both g++ and nvcc compile.
#ifdef __CUDACC__
#define HCTR_HD __host__ __device__
#else
#define HCTR_HD
#endif
