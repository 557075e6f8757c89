// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/slice.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/concat.hpp"

namespace hugectr {
namespace {

/// One top for every range [a, b) of axis 1 of a bottom of 2-D or more; ranges may
/// overlap.
///
/// Attributes: `ranges`, flat: a0, b0, a1, b1, ...; or `copies` = k for k full ranges, which
/// forward() writes into `ranges` (auto_slice.hpp).
class SliceLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    HCTR_CHECK(!spec().tops.empty(), "Slice layer has no top: give it one top a range");
    const TensorRef x = builder.bottom(first_bottom());
    check_bottom(*this, 0, x, x.shape.size() >= 2, "2-D or more");
    read_ranges(static_cast<std::int64_t>(x.shape[1]));
    SliceFwd op{.x = x, .begins = begins_};
    for (std::size_t i = 0; i < spec().tops.size(); ++i) {
      Shape shape = x.shape;
      shape[1] = static_cast<std::size_t>(ends_[i] - begins_[i]);
      op.ys.push_back(builder.top(spec().tops[i], shape));
    }
    pass_on_no_gradient(*this, builder);
    builder.forward(op, name());
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    std::vector<TensorRef> dys;
    for (const std::string& top : spec().tops) dys.push_back(builder.gradient(top));
    const TensorRef dx = builder.gradient(spec().bottoms[0]);
    if (parts_exactly(static_cast<std::int64_t>(dx.shape[1]))) {
      builder.backward(ConcatFwd{.xs = dys, .y = dx}, name());
    } else {
      builder.backward(SliceBwd{.dys = dys, .dx = dx, .begins = begins_}, name());
    }
  }

 private:
  const std::string& first_bottom() const {
    expect(1, 1, spec().tops.size());
    return spec().bottoms[0];
  }

  void read_ranges(std::int64_t width) {
    Attributes& attributes = resolved_spec().attributes;
    if (const std::int64_t copies = attributes.get_int("copies", 0); copies > 0) {
      std::vector<std::int64_t> ranges;
      for (std::int64_t i = 0; i < copies; ++i) ranges.insert(ranges.end(), {0, width});
      attributes.erase("copies");
      attributes.set("ranges", std::move(ranges));
    }
    const std::vector<std::int64_t> ranges = attributes.get_ints("ranges");
    HCTR_CHECK(ranges.size() == 2 * spec().tops.size(), "Slice layer \"", name(), "\": ranges has ",
               ranges.size(), " numbers, must have two for each of ", spec().tops.size(), " tops");
    begins_.clear();
    ends_.clear();
    for (std::size_t i = 0; i < ranges.size(); i += 2) {
      HCTR_CHECK(ranges[i] >= 0 && ranges[i] < ranges[i + 1] && ranges[i + 1] <= width,
                 "Slice layer \"", name(), "\": range ", i / 2, " is [", ranges[i], ", ",
                 ranges[i + 1], "), must be a part of [0, ", width, ") of bottom \"",
                 spec().bottoms[0], "\" and not empty");
      begins_.push_back(ranges[i]);
      ends_.push_back(ranges[i + 1]);
    }
  }

  // Then the gradient needs no sum, and its parts can lie in their places from the start.
  bool parts_exactly(std::int64_t width) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      if (begins_[i] != at) return false;
      at = ends_[i];
    }
    return at == width;
  }

  std::vector<std::int64_t> begins_, ends_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(const DenseLayerSpec& spec) {
  return std::make_unique<SliceLayer>(spec);
}

}  // namespace hugectr
