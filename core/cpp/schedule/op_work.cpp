// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/op_work.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <string_view>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {
namespace {

/// An op's tensors by their names; those it does not have have no elements and no bytes.
class Tensors {
 public:
  void add(const std::string& name, Access access, const TensorRef& ref) {
    Tensor& tensor = tensors_[name];
    tensor.shape = ref.shape;
    tensor.elements += static_cast<double>(ref.size());
    // What is updated is read and written.
    tensor.bytes += ref.size_in_bytes() * (access == Access::InOut ? 2 : 1);
  }
  bool has(const char* name) const { return tensors_.count(name) != 0; }
  std::size_t size(const char* name) const { return static_cast<std::size_t>(elements(name)); }
  const Shape& shape(const char* name) const { return tensors_.at(name).shape; }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [name, tensor] : tensors_) sum += tensor.bytes;
    return sum;
  }

  /// A pass over these tensors.
  KernelWork pass(std::initializer_list<const char*> names) const {
    KernelWork work;
    for (const char* name : names) {
      if (has(name)) work.bytes += tensors_.at(name).bytes;
    }
    return work;
  }
  /// The product (m, k) (k, n) = (m, n), whose sizes multiply to (m k n)^2; and what is read
  /// beside.
  KernelWork product(const char* a, const char* b, const char* c,
                     std::initializer_list<const char*> beside = {}) const {
    KernelWork work = pass({a, b, c});
    work.bytes += pass(beside).bytes;
    work.flops = 2.0 * std::sqrt(elements(a) * elements(b) * elements(c));
    return work;
  }

 private:
  struct Tensor {
    Shape shape;
    double elements = 0.0;
    std::size_t bytes = 0;
  };
  double elements(const char* name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? 0.0 : found->second.elements;
  }
  std::map<std::string, Tensor> tensors_;
};

/// Adds up what blocks have left: few bytes.
const KernelWork kFinish;

/// A warp takes a row, so much of it at once; lanes without columns wait (linear_one_output.cu).
constexpr std::size_t kWarpBytes = 512;

std::vector<KernelWork> linear_fwd(const Tensors& t) {
  if (t.shape("w").back() == 1) {
    KernelWork work = t.pass({"x", "w", "addend", "y"});
    const std::size_t rows = std::max<std::size_t>(t.size("y"), 1);
    const std::size_t row = t.pass({"x"}).bytes / rows;
    work.bytes += rows * ((row + kWarpBytes - 1) / kWarpBytes * kWarpBytes - row);
    return {work};
  }
  return {t.product("x", "w", "y", {"addend"})};
}

std::vector<KernelWork> linear_bwd(const Tensors& t) {
  if (t.shape("w").back() == 1) return {t.pass({"x", "y", "dy", "dz", "dx"}), kFinish};
  std::vector<KernelWork> kernels;
  const char* const gradient = t.has("dz") ? "dz" : "dy";
  if (t.has("y") || t.has("db")) {
    kernels.push_back(t.pass({"y", "dy", "dz"}));
    if (t.has("db")) kernels.push_back(kFinish);
  }
  if (t.has("dx")) {
    // With an activation below, x decides what of dx stays, and dx is summed.
    const bool below = t.has("db_below");
    kernels.push_back(below ? t.product(gradient, "w", "dx", {"x"})
                            : t.product(gradient, "w", "dx"));
    if (below) kernels.push_back(kFinish);
  }
  kernels.push_back(t.product("x", gradient, "dw"));
  return kernels;
}

std::vector<KernelWork> projected_cross_fwd(const Tensors& t) {
  return {t.product("x", "u", "h"), t.product("h", "v", "z"), t.pass({"x0", "x", "z", "y"})};
}

std::vector<KernelWork> projected_cross_bwd(const Tensors& t) {
  std::vector<KernelWork> kernels = {t.pass({"x0", "dy", "z", "dz", "dx0"}), kFinish,
                                     t.product("dz", "v", "dh"), t.product("h", "dz", "dv"),
                                     t.product("x", "dh", "du")};
  if (t.has("dx")) {
    kernels.push_back(t.product("dh", "u", "dx", {"dy"}));
  } else if (t.has("dx0")) {
    kernels.push_back(t.product("dh", "u", "dx0"));
  }
  return kernels;
}

/// Matrices of the last two dimensions.
double matrices_of(const Shape& shape) {
  double count = 1.0;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) count *= static_cast<double>(shape[i]);
  return count;
}

std::vector<KernelWork> batched_gemm(const Tensors& t) {
  const Shape &a = t.shape("a"), &c = t.shape("c");
  const std::size_t m = c[c.size() - 2], n = c.back();
  const std::size_t k = a[a.size() - 2] * a.back() / std::max<std::size_t>(m, 1);
  const double count = std::max({matrices_of(a), matrices_of(t.shape("b")), matrices_of(c)});
  const auto tiles = [](std::size_t edge) {
    return static_cast<double>((edge + kSmallTile - 1) / kSmallTile * kSmallTile);
  };
  KernelWork work = t.pass({"a", "b", "c"});
  work.flops =
      2.0 * count * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  work.tile_flops = 2.0 * count * tiles(m) * tiles(n) * tiles(k);
  return {work};
}

std::vector<KernelWork> kernels_of(std::string_view op, const Tensors& t) {
  if (op == "linear_fwd") return linear_fwd(t);
  if (op == "linear_bwd") return linear_bwd(t);
  if (op == "projected_cross_fwd") return projected_cross_fwd(t);
  if (op == "projected_cross_bwd") return projected_cross_bwd(t);
  if (op == "batched_gemm") return batched_gemm(t);
  std::vector<KernelWork> kernels = {{.bytes = t.bytes()}};
  if (t.has("partial")) kernels.push_back(kFinish);
  return kernels;
}

}  // namespace

std::vector<OpWork> work_of(const StepSchedule& schedule) {
  std::vector<OpWork> result;
  for (const OpRecord& record : schedule.records()) {
    OpWork& work = result.emplace_back();
    work.op = record.op.name();
    work.layer = record.layer;
    Tensors tensors;
    record.op.for_each_tensor([&](const char* name, Access access, const TensorRef& ref) {
      if (ref.empty() && ref.id < 0) return;
      tensors.add(name, access, ref);
      work.in_16_bits |=
          ref.dtype == TensorScalarType::Float16 || ref.dtype == TensorScalarType::BFloat16;
    });
    work.kernels = kernels_of(work.op, tensors);
  }
  return result;
}

}  // namespace hugectr
