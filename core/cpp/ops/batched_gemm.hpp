// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Products of many small matrices.
///
///   c[i] = op(a[i]) op(b[i]),   op(x) = x or its transpose
///
/// The matrices are the last two dimensions, i all those before them: a (.., m, k), or (.., k, m)
/// when transpose_a; b (.., k, n), or (.., n, k) when transpose_b; c (.., m, n). A factor of two
/// dimensions is the same for every i. A c of two dimensions is the sum over i, taken in order. All
/// float32, float16 or bfloat16, samples may be strided. Overwrites c, which overlaps no factor.
/// Sums are float32, rounded once: deterministic.
struct HCTR_API BatchedGemm {
  static constexpr const char* kName = "batched_gemm";
  static constexpr std::string_view k16BitFields = "a b c";
  TensorRef a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;

  void visit(OpVisitor& v) {
    v.tensor("a", Access::In, a);
    v.tensor("b", Access::In, b);
    v.tensor("c", Access::Out, c);
    v.attribute("transpose_a", transpose_a);
    v.attribute("transpose_b", transpose_b);
  }
  void check() const;
};

}  // namespace hugectr
