// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/reshape.hpp"

#include <algorithm>

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/select_slots.hpp"

namespace hugectr {
namespace {

/// Another shape for the same elements, or some slots of an embedding output side by side.
///
/// Attributes, the first that is there counts:
/// - `selected` = list of slots, or `selected` = true with `selected_slots`: (b, S, d) -> (b, k *
/// d)
/// - `shape` = list, one entry may be -1
/// - `time_step` = t > 0 and `leading_dim` = n: -> (rows, t, n)
/// - `leading_dim` = n: -> (rows, n); 0 or absent: one row a sample
class ReshapeLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    select_ = read_slots();
    if (select_) {
      check_slots(x);
      const TensorRef y = builder.top(name(), {x.shape[0], slots_.size() * x.shape[2]});
      builder.forward(SelectSlotsFwd{.x = x, .y = y, .slots = slots_}, name());
    } else {
      const TensorRef y = builder.top(name(), wanted_shape(x));
      if (y.shape[0] % builder.info().local_batch != 0) builder.mark_samples_meet();
      builder.forward(ReshapeFwd{.x = x, .y = y}, name());
    }
    pass_on_no_gradient(*this, builder);
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    const TensorRef dy = builder.gradient(name());
    const TensorRef dx = builder.gradient(spec().bottoms[0]);
    if (select_) {
      builder.backward(SelectSlotsBwd{.dy = dy, .dx = dx, .slots = slots_}, name());
    } else {
      builder.backward(ReshapeFwd{.x = dy, .y = dx}, name());
    }
  }

 private:
  // `selected` is a list in JSON, a bool beside `selected_slots` in Python.
  bool read_slots() {
    const Attributes& attributes = spec().attributes;
    const auto& values = attributes.values();
    const auto it = values.find("selected");
    if (it == values.end()) return false;
    const bool* flag = std::get_if<bool>(&it->second);
    if (flag != nullptr && !*flag) return false;
    slots_ = attributes.get_ints(flag != nullptr ? "selected_slots" : "selected");
    HCTR_CHECK(!slots_.empty(), "Reshape layer \"", name(),
               "\": ", flag != nullptr ? "selected_slots" : "selected",
               " is empty, must list the slots to pick");
    return true;
  }

  void check_slots(const TensorRef& x) const {
    check_bottom(*this, 0, x, x.shape.size() == 3, "(batch, slots, dim) to pick slots from");
    for (const std::int64_t slot : slots_) {
      HCTR_CHECK(slot >= 0 && static_cast<std::size_t>(slot) < x.shape[1], "Reshape layer \"",
                 name(), "\": selected slot ", slot, " is not in [0, ", x.shape[1],
                 ") of bottom \"", spec().bottoms[0], "\"");
    }
  }

  Shape wanted_shape(const TensorRef& x) const {
    const Attributes& attributes = spec().attributes;
    std::vector<std::int64_t> dims = attributes.get_ints("shape");
    if (dims.empty()) {
      const std::int64_t time_step = attributes.get_int("time_step", 0);
      std::int64_t leading = attributes.get_int("leading_dim", 0);
      if (leading <= 0)
        leading = static_cast<std::int64_t>(x.row_size()) / std::max<std::int64_t>(1, time_step);
      dims = time_step > 0 ? std::vector<std::int64_t>{-1, time_step, leading}
                           : std::vector<std::int64_t>{-1, leading};
    }
    std::size_t known = 1, free = 0;
    std::string text;
    Shape shape;
    for (const std::int64_t dim : dims) {
      HCTR_CHECK(dim == -1 || dim > 0, "Reshape layer \"", name(), "\": shape has ", dim,
                 ", every entry must be positive or -1");
      if (dim == -1) ++free;
      if (dim > 0) known *= static_cast<std::size_t>(dim);
      text += (text.empty() ? "(" : ", ") + std::to_string(dim);
      shape.push_back(static_cast<std::size_t>(std::max<std::int64_t>(dim, 0)));
    }
    HCTR_CHECK(free <= 1, "Reshape layer \"", name(), "\": shape ", text, ") has more than one -1");
    const std::size_t size = x.size();
    check_bottom(*this, 0, x, free == 1 ? size % known == 0 : size == known,
                 "of a size that fills " + text + ")" + (free == 1 ? ": a multiple of " : ": ") +
                     std::to_string(known) + " elements, not " + std::to_string(size));
    for (std::size_t& dim : shape) {
      if (dim == 0) dim = size / known;
    }
    return shape;
  }

  bool select_ = false;
  std::vector<std::int64_t> slots_;
};

}  // namespace

std::unique_ptr<Layer> make_reshape(const DenseLayerSpec& spec) {
  return std::make_unique<ReshapeLayer>(spec);
}

}  // namespace hugectr
