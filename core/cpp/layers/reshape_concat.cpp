// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/reshape.hpp"
#include "core/cpp/ops/slice.hpp"

namespace hugectr {
namespace {

/// Slots [begin, end) of every bottom side by side, as a top of one row a slot.
struct SlotGroup {
  std::size_t begin = 0, end = 0;
  std::string top;
  std::vector<TensorRef> slots;  ///< of every bottom, (b, end - begin, d_i)
  TensorRef joined;              ///< (b, end - begin, sum of d_i); the top is a reshape of it
};

/// Vectors of several tables, slot by slot: bottoms (b, f, d_i), D = sum of d_i.
///
/// FusedReshapeConcatGeneral: all slots -> (b * f, D). FusedReshapeConcat: all slots but the last
/// -> first top (b * (f - 1), D), the last slot -> second top (b, D): a history and its item.
class FusedReshapeConcatLayer final : public Layer {
 public:
  FusedReshapeConcatLayer(DenseLayerSpec spec, bool last_apart)
      : Layer(std::move(spec)), last_apart_(last_apart) {}

  void forward(LayerBuilder& builder) override {
    expect(1, 0, last_apart_ ? 2 : 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    check_slots(xs);
    const std::size_t slots = xs[0].shape[1];
    groups_ = {{.begin = 0, .end = last_apart_ ? slots - 1 : slots, .top = spec().tops[0]}};
    if (last_apart_) groups_.push_back({.begin = slots - 1, .end = slots, .top = spec().tops[1]});
    for (SlotGroup& group : groups_) declare(builder, group, xs);
    pass_on_no_gradient(*this, builder);
    if (last_apart_) {
      for (std::size_t i = 0; i < xs.size(); ++i) {
        SliceFwd parts{.x = xs[i]};
        for (const SlotGroup& group : groups_) {
          parts.ys.push_back(group.slots[i]);
          parts.begins.push_back(static_cast<std::int64_t>(group.begin));
        }
        builder.forward(parts, name());
      }
    }
    for (const SlotGroup& group : groups_) {
      builder.forward(ConcatFwd{.xs = group.slots, .y = group.joined, .axis = 2}, name());
      builder.forward(ReshapeFwd{.x = group.joined, .y = builder.bottom(group.top)}, name());
    }
  }

  void backward(LayerBuilder& builder) override {
    if (!any_bottom_needs_gradient(*this, builder)) return;
    std::vector<ConcatFwd> gradients(spec().bottoms.size());  // of a bottom, out of its groups
    for (const SlotGroup& group : groups_) {
      SliceFwd parts{.x = builder.scratch(group.top + "@djoined", group.joined.shape), .axis = 2};
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < spec().bottoms.size(); ++i) {
        const Shape& shape = group.slots[i].shape;
        if (const std::string& bottom = spec().bottoms[i]; builder.needs_gradient(bottom)) {
          const TensorRef part = last_apart_
                                     ? builder.scratch(concat(group.top, "@dslots", i), shape)
                                     : builder.gradient(bottom);
          parts.ys.push_back(part);
          parts.begins.push_back(begin);
          gradients[i].xs.push_back(part);
        }
        begin += static_cast<std::int64_t>(shape[2]);
      }
      builder.backward(ReshapeFwd{.x = builder.gradient(group.top), .y = parts.x}, name());
      builder.backward(parts, name());
    }
    if (!last_apart_) return;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].xs.empty()) continue;
      gradients[i].y = builder.gradient(spec().bottoms[i]);
      builder.backward(gradients[i], name());
    }
  }

 private:
  void check_slots(const std::vector<TensorRef>& xs) const {
    const std::size_t least = last_apart_ ? 2 : 1;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Shape& shape = xs[i].shape;
      check_bottom(*this, i, xs[i], shape.size() == 3 && shape[1] >= least,
                   last_apart_ ? "(batch, 2 slots or more, dim)" : "(batch, slots, dim)");
      check_bottom(*this, i, xs[i], shape[0] == xs[0].shape[0] && shape[1] == xs[0].shape[1],
                   "of as many rows and slots as bottom \"" + spec().bottoms[0] + "\" " +
                       to_string(xs[0].shape));
    }
  }

  void declare(LayerBuilder& builder, SlotGroup& group, const std::vector<TensorRef>& xs) const {
    const std::size_t rows = xs[0].shape[0], slots = group.end - group.begin;
    std::size_t width = 0;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Shape shape{rows, slots, xs[i].shape[2]};
      group.slots.push_back(last_apart_ ? builder.scratch(concat(group.top, "@slots", i), shape)
                                        : xs[i]);
      width += shape[2];
    }
    group.joined = builder.top(group.top + "@joined", {rows, slots, width});
    builder.top(group.top, {rows * slots, width});
  }

  bool last_apart_;
  std::vector<SlotGroup> groups_;
};

}  // namespace

std::unique_ptr<Layer> make_fused_reshape_concat(const DenseLayerSpec& spec) {
  return std::make_unique<FusedReshapeConcatLayer>(spec, true);
}

std::unique_ptr<Layer> make_fused_reshape_concat_general(const DenseLayerSpec& spec) {
  return std::make_unique<FusedReshapeConcatLayer>(spec, false);
}

}  // namespace hugectr
