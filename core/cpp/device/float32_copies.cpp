// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr::detail {
namespace {

/// The rows of a 16-bit tensor as floats, one after the other.
template <class T>
void widen(const TensorRef& from, std::vector<float>& values) {
  float* to = values.data();
  for (std::size_t r = 0; r < from.rows(); ++r) {
    const T* row = from.row<T>(r);
    for (std::size_t i = 0; i < from.row_size(); ++i) *to++ = to_float(row[i]);
  }
}

template <class T, class Narrow>
void store(const std::vector<float>& values, const TensorRef& to, const Narrow& narrow) {
  const float* from = values.data();
  for (std::size_t r = 0; r < to.rows(); ++r) {
    T* row = to.row<T>(r);
    for (std::size_t i = 0; i < to.row_size(); ++i) row[i] = narrow(*from++);
  }
}

bool is_float16(const TensorRef& ref) { return ref.dtype == TensorScalarType::Float16; }

}  // namespace

void Float32Copies::tensor(const char* name, Access access, TensorRef& ref) {
  if (ref.empty() || (!is_float16(ref) && ref.dtype != TensorScalarType::BFloat16)) return;
  if (!is_float16(ref) && names_field(kept_, name)) return;
  copies_.push_back(std::make_unique<Copy>(Copy{access, ref, std::vector<float>(ref.size())}));
  Copy& copy = *copies_.back();
  if (access != Access::Out) {
    is_float16(ref) ? widen<Float16>(ref, copy.values) : widen<BFloat16>(ref, copy.values);
  }
  ref.data = copy.values.data();
  ref.dtype = TensorScalarType::Float32;
  ref.row_stride = ref.row_size();
}

void Float32Copies::write_back() const {
  for (const auto& copy : copies_) {
    if (copy->access == Access::In) continue;
    if (is_float16(copy->original)) {
      store<Float16>(copy->values, copy->original, [](float v) { return to_float16(v); });
    } else {
      store<BFloat16>(copy->values, copy->original, [](float v) { return to_bfloat16(v); });
    }
  }
}

}  // namespace hugectr::detail
