// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/batched_gemm.hpp"

namespace hugectr {
namespace {

/// Product of the last two dimensions of two bottoms; the dimensions before them count the
/// products, and a bottom of two dimensions takes part in all of them:
///
///   (m, k) (k, n) -> (m, n);  (b, m, k) (b, k, n) -> (b, m, n);  (m, k) (b, k, n) -> (b, m, n)
///
/// and likewise for four dimensions.
class MatrixMultiplyLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 2, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t dims = xs[i].shape.size();
      check_bottom(*this, i, xs[i], dims >= 2 && dims <= 4, "2-D, 3-D or 4-D");
    }
    const Shape &a = xs[0].shape, &b = xs[1].shape;
    check_bottom(*this, 1, xs[1], b[b.size() - 2] == a.back(),
                 "of " + std::to_string(a.back()) +
                     " rows (its last dimension but one), as bottom \"" + spec().bottoms[0] +
                     "\" " + to_string(a) + " has columns");
    const Shape &more = a.size() >= b.size() ? a : b, &fewer = a.size() >= b.size() ? b : a;
    const bool fits =
        fewer.size() == 2 || Shape(a.begin(), a.end() - 2) == Shape(b.begin(), b.end() - 2);
    check_bottom(*this, 1, xs[1], fits,
                 "2-D, or of the dimensions of bottom \"" + spec().bottoms[0] + "\" " +
                     to_string(a) + " before the last two");
    Shape shape(more.begin(), more.end() - 2);
    shape.insert(shape.end(), {a[a.size() - 2], b.back()});
    const TensorRef y = builder.top(name(), shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(BatchedGemm{.a = xs[0], .b = xs[1], .c = y}, name());
  }

  // da = dy b^T, db = a^T dy; of a factor of all products the sum over them.
  void backward(LayerBuilder& builder) override {
    const std::string &a = spec().bottoms[0], &b = spec().bottoms[1];
    const auto dy = [&] { return builder.gradient(name()); };
    if (builder.needs_gradient(a)) {
      builder.backward(
          BatchedGemm{
              .a = dy(), .b = builder.bottom(b), .c = builder.gradient(a), .transpose_b = true},
          name());
    }
    if (builder.needs_gradient(b)) {
      builder.backward(
          BatchedGemm{
              .a = builder.bottom(a), .b = dy(), .c = builder.gradient(b), .transpose_a = true},
          name());
    }
  }
};

}  // namespace

std::unique_ptr<Layer> make_matrix_multiply(const DenseLayerSpec& spec) {
  return std::make_unique<MatrixMultiplyLayer>(spec);
}

}  // namespace hugectr
