// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/slice.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/uses.hpp"

namespace hugectr {
namespace {

/// Columns of the concat's result that are a tensor of their own.
struct Part {
  TensorRef x;
  TensorRef dx;  ///< empty where no gradient is wanted
  std::size_t begin = 0, width = 0;
};

/// A concat that only one linear reads. Records by index; backward and slice may be absent.
struct Match {
  std::vector<Part> parts;
  std::size_t concat = 0, forward = 0;
  std::optional<std::size_t> backward, slice;
};

class Splitter {
 public:
  explicit Splitter(StepSchedule& schedule) : schedule_(schedule), uses_(uses_of(schedule)) {}

  void run() {
    for (std::size_t i = 0; i < schedule_.records().size(); ++i) {
      const std::optional<Match> match = find(i);
      if (match && pays(*match)) split(*match);
    }
    std::vector<OpRecord> records;
    for (std::size_t i = 0; i < schedule_.records().size(); ++i) {
      const auto pieces = pieces_.find(i);
      if (pieces == pieces_.end()) {
        records.push_back(std::move(schedule_.records()[i]));
      } else {
        std::move(pieces->second.begin(), pieces->second.end(), std::back_inserter(records));
      }
    }
    schedule_.records() = std::move(records);
  }

 private:
  ScheduleTensor& at(int id) { return schedule_.tensors()[static_cast<std::size_t>(id)]; }
  template <class Op>
  const Op* op(std::size_t record) {
    return schedule_.records()[record].op.get_if<Op>();
  }
  const std::vector<std::size_t>& uses(int id) {
    static const std::vector<std::size_t> kNone;
    const auto it = uses_.find(id);
    return it == uses_.end() ? kNone : it->second;
  }
  /// Nobody but records can see it.
  bool hidden(int id) {
    return id >= 0 && at(id).role != TensorRole::External && at(id).base < 0 && !at(id).kept;
  }

  std::optional<Match> find(std::size_t i) {
    const auto* concat = op<ConcatFwd>(i);
    if (!concat || concat->axis != 1 || concat->y.shape.size() != 2 || !hidden(concat->y.id)) {
      return {};
    }
    Match match{.concat = i};
    std::size_t begin = 0;
    for (const TensorRef& x : concat->xs) {
      if (x.id < 0) return {};
      match.parts.push_back({.x = x, .begin = begin, .width = x.shape[1]});
      begin += x.shape[1];
    }
    const auto& readers = uses(concat->y.id);
    if (readers.size() < 2 || readers.size() > 3 || readers[0] != i) return {};
    match.forward = readers[1];
    const auto* forward = op<LinearFwd>(match.forward);
    if (!forward || forward->x.id != concat->y.id || !whole_rows(forward->w)) return {};
    if (!forward->addend.empty()) return {};
    if (readers.size() == 3 && !find_backward(readers[2], *concat, match)) return {};
    return match;
  }

  /// Its rows lie one after the other: a range of them is a tensor too.
  bool whole_rows(const TensorRef& ref) { return ref.id >= 0 && at(ref.id).row_stride == 0; }

  bool find_backward(std::size_t i, const ConcatFwd& concat, Match& match) {
    const auto* backward = op<LinearBwd>(i);
    if (!backward || backward->x.id != concat.y.id || backward->below != Activation::Non ||
        !whole_rows(backward->w) || !whole_rows(backward->dw)) {
      return false;
    }
    match.backward = i;
    if (backward->dx.empty()) return true;
    if (!hidden(backward->dx.id)) return false;
    const auto& readers = uses(backward->dx.id);
    if (readers.size() != 2 || readers[0] != i) return false;
    match.slice = readers[1];
    const auto* slice = op<SliceFwd>(readers[1]);
    if (!slice || slice->axis != 1) return false;
    for (std::size_t s = 0; s < slice->ys.size(); ++s) {
      if (!hand_gradient(slice->ys[s], static_cast<std::size_t>(slice->begins[s]), match.parts)) {
        return false;
      }
    }
    return true;
  }

  /// False when `dx` is the gradient of no part, or of one that has another already.
  static bool hand_gradient(const TensorRef& dx, std::size_t begin, std::vector<Part>& parts) {
    for (Part& part : parts) {
      if (part.begin != begin || part.x.shape != dx.shape || !part.dx.empty()) continue;
      part.dx = dx;
      return true;
    }
    return false;
  }

  /// Whether a product would write columns that no 16-byte store reaches, and adding up the
  /// results of the parts moves less than the copies that those columns cost.
  bool pays(const Match& match) {
    const auto* forward = op<LinearFwd>(match.forward);
    const std::size_t lanes = 16 / size_of(forward->x.dtype);
    std::size_t crooked = 0;
    for (const Part& part : match.parts) {
      const auto& users = uses(part.x.id);
      const auto* producer = users.empty() ? nullptr : op<LinearFwd>(users[0]);
      if (producer && producer->y.id == part.x.id && part.begin % lanes != 0) crooked += part.width;
    }
    return forward->w.shape[1] * (match.parts.size() - 1) <= crooked && crooked > 0;
  }

  void split(const Match& match) {
    const std::size_t last = match.parts.size() - 1;
    pieces_[match.concat] = {};
    if (match.slice) pieces_[*match.slice] = {};
    const OpRecord forward = schedule_.records()[match.forward];
    const LinearFwd whole = *forward.op.get_if<LinearFwd>();
    TensorRef sum;
    for (std::size_t i = 0; i <= last; ++i) {
      LinearFwd piece{.x = match.parts[i].x, .w = rows_of(whole.w, match.parts[i])};
      piece.addend = sum;
      piece.y = sum = i == last ? whole.y : partial_result(whole.y, i);
      if (i == last) piece.b = whole.b;
      if (i == last) piece.activation = whole.activation;
      pieces_[match.forward].push_back({piece, forward.phase, forward.layer});
    }
    if (match.backward) split_backward(match);
  }

  /// The first piece masks and sums what comes from above, for all of them.
  void split_backward(const Match& match) {
    const OpRecord backward = schedule_.records()[*match.backward];
    const LinearBwd whole = *backward.op.get_if<LinearBwd>();
    for (const Part& part : match.parts) {
      LinearBwd piece = whole;
      if (&part != &match.parts.front()) {
        piece.dy = whole.gradient();
        piece.activation = Activation::Non;
        piece.y = piece.dz = piece.db = piece.partial = {};
      }
      piece.x = part.x;
      piece.w = rows_of(whole.w, part);
      piece.dw = rows_of(whole.dw, part);
      piece.dx = part.dx;
      pieces_[*match.backward].push_back({piece, backward.phase, backward.layer});
    }
  }

  /// The rows of w that multiply a part, as a view.
  TensorRef rows_of(const TensorRef& w, const Part& part) {
    const std::string name = concat(at(w.id).name, "@rows", part.begin, "+", part.width);
    if (schedule_.has(name)) return schedule_.ref(name);
    const ScheduleTensor all = at(w.id);  // add_tensor may move it
    const Shape shape{part.width, all.shape[1]};
    const int id = schedule_.add_tensor(name, shape, TensorRole::View, all.dtype).id;
    at(id).base = all.base >= 0 ? all.base : w.id;
    at(id).offset = all.offset + part.begin * all.shape[1];
    return schedule_.ref(id);
  }

  /// What the parts so far add up to: its memory is free once the next one has read it.
  TensorRef partial_result(const TensorRef& y, std::size_t i) {
    const ScheduleTensor result = at(y.id);
    const std::string name = concat(result.name, "@sum", i);
    const int id = schedule_.add_tensor(name, result.shape, TensorRole::Gradient, result.dtype).id;
    at(id).row_stride = result.row_stride;
    return schedule_.ref(id);
  }

  StepSchedule& schedule_;
  const std::map<int, std::vector<std::size_t>> uses_;
  std::map<std::size_t, std::vector<OpRecord>> pieces_;  ///< what stands for a record
};

}  // namespace

void split_linear_over_concat(StepSchedule& schedule) { Splitter(schedule).run(); }

}  // namespace hugectr
