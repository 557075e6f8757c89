// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/entry_op.hpp"

/// What an activation of the catalogue says of itself. An entry is a small struct that derives from
/// its Fields<...> and has
///
///   static constexpr const char* kName;  // layer type: "ELU"
///   static constexpr const char* kOp;    // stem of its ops: "elu" makes elu_fwd and elu_bwd
///   static constexpr const char* kDoc;   // formula
///   HCTR_HD float forward(float x) const;
///   HCTR_HD float backward(float y, float dy) const;  // from the result: x need not be kept
///
/// and, where the exact function is too slow for tensors of 16 bits on a GPU,
///
///   __device__ float forward_in_16_bits(float x) const;  // within #ifdef __CUDACC__
///
/// A field `alpha` of the op `elu` is the layer's parameter `elu_alpha`, and `elu_param.alpha` in
/// JSON. forward makes no number of a NaN, so that a broken run is seen.
namespace hugectr {

/// Throws InvalidArgument unless all tensors are k16BitFields ones of one dtype and shape.
HCTR_API void check_activation(const char* op, const char* first_name, const TensorRef& first,
                               const char* second_name, const TensorRef& second);

/// y = forward(x), element by element.
///
/// x, y: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites y, which may
/// be x. Deterministic.
template <class Entry>
struct HCTR_API ActivationFwd {
  static constexpr auto kNameText = entry_op_name<Entry>("_fwd");
  static constexpr const char* kName = kNameText.data();
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;
  Entry entry;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
    visit_fields(v, entry);
  }
  void check() const {
    check_activation(kName, "x", x, "y", y);
    check_fields(kName, entry);
  }
};

/// dx = backward(y, dy), element by element: y is the result of forward.
///
/// y, dy, dx: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites dx, which
/// may be dy. Deterministic.
template <class Entry>
struct HCTR_API ActivationBwd {
  static constexpr auto kNameText = entry_op_name<Entry>("_bwd");
  static constexpr const char* kName = kNameText.data();
  static constexpr std::string_view k16BitFields = "y dy dx";
  TensorRef y, dy, dx;
  Entry entry;
  void visit(OpVisitor& v) {
    v.tensor("y", Access::In, y);
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
    visit_fields(v, entry);
  }
  void check() const {
    check_activation(kName, "y", y, "dy", dy);
    check_activation(kName, "y", y, "dx", dx);
    check_fields(kName, entry);
  }
};

}  // namespace hugectr
