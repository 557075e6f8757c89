// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/step_schedule.hpp"

#include <algorithm>

namespace hugectr {
namespace {

/// Up to eight names, for messages.
std::string some_names(const std::map<std::string, int>& ids) {
  std::string text;
  int count = 0;
  for (const auto& [name, id] : ids) {
    if (name.find('@') != std::string::npos) continue;  // not a name users gave
    if (++count > 8) return text + ", ...";
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text;
}

}  // namespace

TensorRef StepSchedule::add_tensor(const std::string& name, const Shape& shape, TensorRole role,
                                   TensorScalarType dtype) {
  HCTR_CHECK(!name.empty(), "a tensor needs a name");
  HCTR_CHECK(!has(name), "tensor name '", name, "' is used twice; give every top its own name");
  const int id = static_cast<int>(tensors_.size());
  ScheduleTensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.dtype = dtype;
  tensor.role = role;
  tensors_.push_back(std::move(tensor));
  ids_[name] = id;
  return ref(id);
}

void StepSchedule::add(Phase phase, AnyOp op, std::string layer) {
  records_.push_back({std::move(op), phase, std::move(layer)});
}

int StepSchedule::id(const std::string& name) const {
  const auto it = ids_.find(name);
  HCTR_CHECK(it != ids_.end(), "there is no tensor '", name, "'; known: ", some_names(ids_));
  return it->second;
}

void StepSchedule::add_once(Phase phase, AnyOp op, std::string layer) {
  add(phase, std::move(op), std::move(layer));
  records_.back().once = true;
}

TensorRef StepSchedule::ref(const std::string& name) const { return ref(id(name)); }

TensorRef StepSchedule::ref(int id) const {
  const ScheduleTensor& tensor = tensors_.at(static_cast<std::size_t>(id));
  TensorRef ref;
  ref.id = id;
  ref.dtype = tensor.dtype;
  ref.shape = tensor.shape;
  ref.row_stride = tensor.row_stride != 0 ? tensor.row_stride : ref.row_size();
  return ref;
}

void StepSchedule::refresh_refs() {
  for (OpRecord& record : records_) {
    record.op.for_each_tensor([this](const char*, Access, TensorRef& tensor) {
      if (tensor.id >= 0) tensor = ref(tensor.id);
    });
  }
}

void StepSchedule::order_by_phase() {
  std::stable_sort(records_.begin(), records_.end(),
                   [](const OpRecord& a, const OpRecord& b) { return a.phase < b.phase; });
}

}  // namespace hugectr
