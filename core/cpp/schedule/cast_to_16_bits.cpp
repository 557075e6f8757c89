// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cpp/ops/cast.hpp"
#include "core/cpp/ops/loss_scale.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kLeastPadded = 4;  ///< narrower rows would more than double

bool is_real(TensorScalarType dtype) {
  return dtype == TensorScalarType::Float32 || dtype == TensorScalarType::Float16 ||
         dtype == TensorScalarType::BFloat16;
}

/// A tensor of a record in the type the record asks for.
struct Twin {
  int id = -1;
  bool read = false, written = false;
};
using Twins = std::map<std::pair<int, TensorScalarType>, Twin>;

class CastTo16Bits {
 public:
  CastTo16Bits(StepSchedule& schedule, TensorScalarType dtype)
      : schedule_(schedule), dtype_(dtype) {
    for (const ScheduleTensor& tensor : schedule.tensors()) declared_.push_back(tensor.dtype);
  }

  void run() {
    cast_tensors();
    align_rows();
    std::vector<OpRecord> records = std::move(schedule_.records());
    schedule_.records().clear();
    for (OpRecord& record : records) rewrite(record);
    schedule_.refresh_refs();
  }

 private:
  ScheduleTensor& at(int id) { return schedule_.tensors()[static_cast<std::size_t>(id)]; }

  /// Calls f(field, access, tensor id) for what the op takes in 16 bits.
  template <class F>
  void for_each_16_bit_field(const AnyOp& op, const F& f) const {
    op.for_each_tensor([&](const char* field, Access access, const TensorRef& ref) {
      if (ref.id >= 0 && op.takes_16_bits(field)) f(field, access, ref.id);
    });
  }

  /// An op that reads what must stay float32 (labels, what a Cast layer made) computes in float32.
  bool runs_in_16_bits(const AnyOp& op) {
    bool stays = false;
    for_each_16_bit_field(op, [&](const char*, Access access, int id) {
      stays |= access == Access::In && at(id).role != TensorRole::External &&
               !at(id).may_be_16_bits &&
               declared_[static_cast<std::size_t>(id)] == TensorScalarType::Float32;
    });
    return !stays;
  }

  void cast_tensors() {
    for (const OpRecord& record : std::as_const(schedule_).records()) {
      if (!runs_in_16_bits(record.op)) continue;
      for_each_16_bit_field(record.op, [&](const char*, Access, int id) {
        if (at(id).may_be_16_bits && at(id).role != TensorRole::External) at(id).dtype = dtype_;
      });
    }
  }

  void align_rows() {
    for (std::size_t id = 0; id < declared_.size(); ++id) {
      ScheduleTensor& tensor = schedule_.tensors()[id];
      if (tensor.dtype == declared_[id] || tensor.shape.size() != 2) continue;
      const std::size_t width = tensor.shape[1];
      if (width < kLeastPadded || width % kRowAlign == 0) continue;
      tensor.row_stride = (width + kRowAlign - 1) / kRowAlign * kRowAlign;
    }
  }

  /// The type an op asks of a tensor in one of its fields.
  TensorScalarType wanted(const AnyOp& op, const char* field, int id) {
    if (!op.takes_16_bits(field)) return declared_[static_cast<std::size_t>(id)];
    return runs_in_16_bits(op) ? dtype_ : TensorScalarType::Float32;
  }

  void rewrite(OpRecord& record) {
    if (record.op.get_if<Cast>() || record.op.get_if<FindOverflow>()) {  // take every type
      schedule_.records().push_back(std::move(record));
      return;
    }
    Twins twins;
    std::as_const(record.op).for_each_tensor(
        [&](const char* field, Access access, const TensorRef& ref) {
          if (ref.id < 0 || !is_real(at(ref.id).dtype)) return;
          const TensorScalarType type = wanted(record.op, field, ref.id);
          if (type == at(ref.id).dtype) return;
          Twin& twin = twins[{ref.id, type}];
          twin.read |= access != Access::Out;
          twin.written |= access != Access::In;
        });
    for (auto& [key, twin] : twins) provide(key.first, key.second, record, twin);
    const AnyOp before = record.op;
    record.op.for_each_tensor([&](const char* field, Access, TensorRef& ref) {
      if (ref.id < 0) return;
      const auto it = twins.find({ref.id, wanted(before, field, ref.id)});
      if (it != twins.end()) ref = schedule_.ref(it->second.id);
    });
    const Phase phase = record.phase;
    const std::string layer = record.layer;
    forget_written(record.op);
    schedule_.records().push_back(std::move(record));
    for (const auto& [key, twin] : twins) {
      if (!twin.written) continue;
      cast(twin.id, key.first, phase, layer);
      forget(key.first);
    }
  }

  /// Makes the twin, and fills it before the record when the record reads it.
  void provide(int id, TensorScalarType type, const OpRecord& record, Twin& twin) {
    if (at(id).role == TensorRole::External && at(id).may_be_16_bits) {
      HCTR_CHECK(!twin.written, "layer '", record.layer, "': '", record.op.name(), "' writes '",
                 at(id).name, "', a parameter, in 16 bits");
      const std::string name = name_in_16_bits(at(id).name);
      twin.id = schedule_.has(name) ? schedule_.id(name)
                                    : add(name, at(id).shape, TensorRole::External, type);
      return;
    }
    const auto key = std::make_tuple(id, type, record.phase);
    if (const auto it = filled_.find(key); it != filled_.end() && !twin.written) {
      twin.id = it->second;
      return;
    }
    twin.id = add(concat(at(id).name, "@", to_string(type), "_", declared_.size()), at(id).shape,
                  TensorRole::Gradient, type);
    if (!twin.read) return;
    cast(id, twin.id, record.phase, record.layer);
    if (!twin.written) filled_[key] = twin.id;
  }

  int add(const std::string& name, const Shape& shape, TensorRole role, TensorScalarType type) {
    const Shape copy = shape;  // add_tensor may move what `shape` lies in
    declared_.push_back(type);
    return schedule_.add_tensor(name, copy, role, type).id;
  }

  void cast(int from, int to, Phase phase, const std::string& layer) {
    schedule_.add(phase, Cast{.x = schedule_.ref(from), .y = schedule_.ref(to)}, layer);
  }

  /// Twins filled earlier are stale once the tensor has been written anew.
  void forget(int id) {
    std::erase_if(filled_, [id](const auto& item) { return std::get<0>(item.first) == id; });
  }
  void forget_written(const AnyOp& op) {
    op.for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      if (access != Access::In) forget(ref.id);
    });
  }

  StepSchedule& schedule_;
  TensorScalarType dtype_;
  std::vector<TensorScalarType> declared_;  ///< by tensor id, as the layers said
  /// (tensor, type, phase) -> its twin. Not across phases: the twin's memory would be held.
  std::map<std::tuple<int, TensorScalarType, Phase>, int> filled_;
};

}  // namespace

std::string name_in_16_bits(const std::string& parameter) { return parameter + "@16"; }

void cast_to_16_bits(StepSchedule& schedule, TensorScalarType dtype) {
  HCTR_CHECK(dtype == TensorScalarType::Float16 || dtype == TensorScalarType::BFloat16,
             "mixed precision computes in float16 or bfloat16, not in ", to_string(dtype));
  CastTo16Bits(schedule, dtype).run();
}

}  // namespace hugectr
