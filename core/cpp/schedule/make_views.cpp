// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/ops/attention.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/dice.hpp"
#include "core/cpp/ops/layer_norm.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/reshape.hpp"
#include "core/cpp/ops/slice.hpp"
#include "core/cpp/ops/softmax.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

template <class... Ops>
bool is_one_of(const AnyOp& op) {
  return (op.get_if<Ops>() || ...);
}

/// Ops that take a tensor of more dimensions as one matrix, rows along its last axis, or heads that
/// lie apart as samples: no gaps between samples.
bool wants_no_gaps(const AnyOp& op) {
  if (const auto* attention = op.get_if<AttentionFwd>()) return heads_lie_apart(attention->q);
  if (const auto* attention = op.get_if<AttentionBwd>()) return heads_lie_apart(attention->q);
  return is_one_of<BatchNormBwd, BatchNormBwdSums, BatchNormFwd, BatchNormSquares, BatchNormSums,
                   DiceBwd, DiceBwdSums, DiceFwd, LayerNormBwd, LayerNormFwd, LinearBwd, LinearFwd,
                   SoftmaxBwd, SoftmaxFwd>(op);
}

/// Turns pure copies into views. A tensor either owns its memory (a root) or lies in a root at an
/// offset with a row stride; placing a root inside another tensor moves all that lies in it.
/// No op writes a tensor it declares as input, so sharing memory changes no result.
class Viewer {
 public:
  explicit Viewer(StepSchedule& schedule)
      : schedule_(schedule),
        tensors_(schedule.tensors()),
        pinned_(tensors_.size(), false),
        packed_(tensors_.size(), false) {
    for (OpRecord& record : schedule.records()) {
      if (!wants_no_gaps(record.op)) continue;
      std::as_const(record.op).for_each_tensor([&](const char*, Access, const TensorRef& ref) {
        if (ref.id >= 0 && ref.shape.size() > 2) packed_[static_cast<std::size_t>(ref.id)] = true;
      });
    }
  }

  void run() {
    std::vector<OpRecord> kept;
    for (OpRecord& record : schedule_.records()) {
      if (const auto* reshape = record.op.get_if<ReshapeFwd>()) {
        if (view_reshape(reshape->x.id, reshape->y.id)) continue;
      } else if (const auto* slice = record.op.get_if<SliceFwd>()) {
        if (slice->axis == 1 && view_slice(*slice)) continue;
      } else if (const auto* concat = record.op.get_if<ConcatFwd>()) {
        if (concat->axis == 1 && place_concat(*concat, record, kept)) continue;
      }
      kept.push_back(std::move(record));
    }
    schedule_.records() = std::move(kept);
  }

 private:
  ScheduleTensor& at(int id) { return tensors_[static_cast<std::size_t>(id)]; }
  int root(int id) { return at(id).base >= 0 ? at(id).base : id; }
  static std::size_t rows(const ScheduleTensor& t) { return t.shape.empty() ? 1 : t.shape[0]; }
  std::size_t row_size(int id) { return num_elements(at(id).shape) / rows(at(id)); }
  std::size_t stride(int id) { return at(id).row_stride ? at(id).row_stride : row_size(id); }
  bool owns(int id) { return id >= 0 && at(id).base < 0 && at(id).role != TensorRole::External; }

  /// Whether `id` and all that lies in it may have rows so far apart.
  bool may_lie(int id, std::size_t row_stride) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const int t = static_cast<int>(i);
      if ((t == id || at(t).base == id) && packed_[i] && row_size(t) != row_stride) return false;
    }
    return true;
  }

  /// `id` becomes columns of `in`, `offset` elements into each row.
  void put(int id, int in, std::size_t offset, std::size_t row_stride) {
    const int base = root(in);
    const std::size_t shift = at(in).offset + offset;
    at(base).kept = at(base).kept || at(id).kept;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      ScheduleTensor& t = tensors_[i];
      if (t.base != id) continue;
      t.base = base;
      t.offset += shift;
      t.row_stride = row_stride;
    }
    ScheduleTensor& t = at(id);
    t.role = TensorRole::View;
    t.base = base;
    t.offset = shift;
    t.row_stride = row_stride;
  }

  bool view_reshape(int x, int y) {
    if (x < 0 || !owns(y) || pinned_[static_cast<std::size_t>(y)]) return false;
    if (has_views(y)) return false;
    if (rows(at(x)) == rows(at(y))) {
      if (!may_lie(y, stride(x))) return false;
      put(y, x, 0, stride(x));
      return true;
    }
    // Other rows: both must lie without gaps, now and after all later placements.
    const int base = root(x);
    if (stride(x) != row_size(x) || at(x).offset != 0 ||
        num_elements(at(base).shape) != num_elements(at(x).shape)) {
      return false;
    }
    pinned_[static_cast<std::size_t>(base)] = true;
    put(y, x, 0, row_size(y));
    return true;
  }

  bool view_slice(const SliceFwd& slice) {
    const int x = slice.x.id;
    if (x < 0) return false;
    for (const TensorRef& y : slice.ys) {
      if (!owns(y.id) || has_views(y.id) || !may_lie(y.id, stride(x))) return false;
    }
    std::size_t inner = 1;
    for (std::size_t i = 2; i < slice.x.shape.size(); ++i) inner *= slice.x.shape[i];
    for (std::size_t i = 0; i < slice.ys.size(); ++i) {
      put(slice.ys[i].id, x, static_cast<std::size_t>(slice.begins[i]) * inner, stride(x));
    }
    return true;
  }

  /// Places every source it can inside the result. True when no copy is left to do; else copies of
  /// the others into columns of the result are appended to `kept`.
  bool place_concat(const ConcatFwd& concat, const OpRecord& record, std::vector<OpRecord>& kept) {
    const int y = concat.y.id;
    if (y < 0) return false;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < concat.xs.size(); ++i) {
      const int x = concat.xs[i].id;
      if (x < 0) return false;
      const std::size_t width = row_size(x);
      if (can_place(root(x), x, y)) {
        put(root(x), y, offset, stride(y));
      } else {
        copy_into_column(x, y, offset, i, record, kept);
      }
      offset += width;
    }
    return true;
  }

  bool can_place(int r, int x, int y) {
    return owns(r) && !pinned_[static_cast<std::size_t>(r)] && r != root(y) && at(x).offset == 0 &&
           at(r).shape[0] == at(y).shape[0] && row_size(r) == row_size(x) &&
           at(r).role == at(root(y)).role && at(r).dtype == at(y).dtype && may_lie(r, stride(y));
  }

  void copy_into_column(int x, int y, std::size_t offset, std::size_t index, const OpRecord& record,
                        std::vector<OpRecord>& kept) {
    const std::string name = concat(at(y).name, "@part", index, "_", kept.size());
    const int part = schedule_.add_tensor(name, at(x).shape, TensorRole::View, at(x).dtype).id;
    pinned_.push_back(false);
    packed_.push_back(false);
    put(part, y, offset, stride(y));
    kept.push_back(
        {ReshapeFwd{.x = schedule_.ref(x), .y = schedule_.ref(part)}, record.phase, record.layer});
  }

  bool has_views(int id) {
    for (const ScheduleTensor& t : tensors_) {
      if (t.base == id) return true;
    }
    return false;
  }

  StepSchedule& schedule_;
  std::vector<ScheduleTensor>& tensors_;
  std::vector<bool> pinned_;
  std::vector<bool> packed_;  ///< rows lie one after the other
};

}  // namespace

void make_views(StepSchedule& schedule) { Viewer(schedule).run(); }

}  // namespace hugectr
