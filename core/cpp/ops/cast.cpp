// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/cast.hpp"

#include <type_traits>

#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

float widen(float value) { return value; }
float widen(Float16 value) { return to_float(value); }
float widen(BFloat16 value) { return to_float(value); }

template <class To>
To narrow(float value) {
  if constexpr (std::is_same_v<To, Float16>) return to_float16(value);
  if constexpr (std::is_same_v<To, BFloat16>) return to_bfloat16(value);
  if constexpr (std::is_same_v<To, float>) return value;
}

template <class From, class To>
void cast_elements(const OpContext& ctx, const Cast& op) {
  for_each_span(*ctx.pool, op.x.rows(), op.x.row_size(), op.x.contiguous() && op.y.contiguous(),
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const From* __restrict x = op.x.row<From>(row) + column;
                  To* __restrict y = op.y.row<To>(row) + column;
                  for (std::size_t i = 0; i < count; ++i) y[i] = narrow<To>(widen(x[i]));
                });
}

template <class From>
void cast_from(const OpContext& ctx, const Cast& op) {
  switch (op.y.dtype) {
    case TensorScalarType::Float16:
      return cast_elements<From, Float16>(ctx, op);
    case TensorScalarType::BFloat16:
      return cast_elements<From, BFloat16>(ctx, op);
    default:
      return cast_elements<From, float>(ctx, op);
  }
}

void cast_kernel(const OpContext& ctx, const Cast& op) {
  switch (op.x.dtype) {
    case TensorScalarType::Float16:
      return cast_from<Float16>(ctx, op);
    case TensorScalarType::BFloat16:
      return cast_from<BFloat16>(ctx, op);
    default:
      return cast_from<float>(ctx, op);
  }
}

const OpRegistration<Cast> cast_cpu{DeviceType::Cpu, &cast_kernel};

}  // namespace

void Cast::check() const {
  for (const TensorRef* t : {&x, &y}) {
    HCTR_CHECK(t->dtype == TensorScalarType::Float32 || t->dtype == TensorScalarType::Float16 ||
                   t->dtype == TensorScalarType::BFloat16,
               kName, ": x and y must hold float32, float16 or bfloat16, found ",
               to_string(t->dtype));
  }
  HCTR_CHECK(x.shape == y.shape, kName, ": x has shape ", to_string(x.shape), ", y ",
             to_string(y.shape), ": they must be equal");
}

}  // namespace hugectr
