// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/op_work.hpp"

#include <cmath>
#include <map>
#include <string_view>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {
namespace {

/// Elements of an op's tensors by their names; 0 of those it does not have.
class Sizes {
 public:
  void add(const std::string& name, std::size_t size) { sizes_[name] += static_cast<double>(size); }
  bool has(const char* name) const { return sizes_.count(name) != 0; }
  /// Of the product (m, k) (k, n) = (m, n), whose sizes multiply to (m k n)^2.
  double product(const char* a, const char* b, const char* c) const {
    return 2.0 * std::sqrt(of(a) * of(b) * of(c));
  }

 private:
  double of(const char* name) const {
    const auto found = sizes_.find(name);
    return found == sizes_.end() ? 0.0 : found->second;
  }
  std::map<std::string, double> sizes_;
};

double flops_of(std::string_view op, const Sizes& sizes, std::size_t batches) {
  if (op == "linear_fwd") return sizes.product("x", "w", "y");
  if (op == "linear_bwd") {
    return sizes.product("x", "w", "dy") * (sizes.has("dx") ? 2.0 : 1.0);
  }
  const double cross = sizes.product("x", "u", "h") + sizes.product("h", "v", "z");
  if (op == "projected_cross_fwd") return cross;
  if (op == "projected_cross_bwd") return 2.0 * cross;
  if (op == "batched_gemm") {
    return sizes.product("a", "b", "c") / std::sqrt(static_cast<double>(batches));
  }
  return 0.0;
}

}  // namespace

std::vector<OpWork> work_of(const StepSchedule& schedule) {
  std::vector<OpWork> result;
  for (const OpRecord& record : schedule.records()) {
    OpWork& work = result.emplace_back();
    work.op = record.op.name();
    work.layer = record.layer;
    Sizes sizes;
    std::size_t batches = 1;
    record.op.for_each_tensor([&](const char* name, Access, const TensorRef& ref) {
      if (ref.empty() && ref.id < 0) return;
      sizes.add(name, ref.size());
      work.bytes += ref.size_in_bytes();
      if (std::string_view(name) == "a") batches = std::max<std::size_t>(ref.shape[0], 1);
      work.in_16_bits |=
          ref.dtype == TensorScalarType::Float16 || ref.dtype == TensorScalarType::BFloat16;
    });
    work.flops = flops_of(work.op, sizes, batches);
  }
  return result;
}

}  // namespace hugectr
