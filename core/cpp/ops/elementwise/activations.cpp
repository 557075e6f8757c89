// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/elementwise/activations.hpp"

#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void check_activation(const char* op, const char* first_name, const TensorRef& first,
                      const char* second_name, const TensorRef& second) {
  check_real(op, first_name, first);
  check_real(op, second_name, second, first.dtype, first.shape);
}

std::vector<ActivationDescription> describe_activations() {
  std::vector<ActivationDescription> all;
  for_each_entry<Activations>([&]<class Entry>(const Entry& entry) {
    all.push_back({{Entry::kName, Entry::kDoc, describe_fields(entry)}, Entry::kOp});
  });
  return all;
}

namespace {

template <class Entry>
void forward_kernel(const OpContext& ctx, const ActivationFwd<Entry>& op) {
  const Entry entry = op.entry;
  const TensorRef &to = op.y, &from = op.x;
  for_each_span(*ctx.pool, from.rows(), from.row_size(), from.contiguous() && to.contiguous(),
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* x = from.row<float>(row) + column;
                  float* y = to.row<float>(row) + column;
                  for (std::size_t i = 0; i < count; ++i) y[i] = entry.forward(x[i]);
                });
}

template <class Entry>
void backward_kernel(const OpContext& ctx, const ActivationBwd<Entry>& op) {
  const Entry entry = op.entry;
  const TensorRef &to = op.dx, &from = op.dy, &result = op.y;
  const bool flat = to.contiguous() && from.contiguous() && result.contiguous();
  for_each_span(*ctx.pool, result.rows(), result.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* __restrict y = result.row<float>(row) + column;
                  const float* dy = from.row<float>(row) + column;
                  float* dx = to.row<float>(row) + column;
                  for (std::size_t i = 0; i < count; ++i) dx[i] = entry.backward(y[i], dy[i]);
                });
}

template <class Entry>
struct OnCpu {
  OpRegistration<ActivationFwd<Entry>> forward{DeviceType::Cpu, &forward_kernel<Entry>};
  OpRegistration<ActivationBwd<Entry>> backward{DeviceType::Cpu, &backward_kernel<Entry>};
};
const OfEach<OnCpu, Activations> on_cpu;

}  // namespace
}  // namespace hugectr
