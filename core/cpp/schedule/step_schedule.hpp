// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/device/op.hpp"

/// The step as data: op records over symbolic tensors, built once per model, free of devices.
/// Layers append records; passes (core/cpp/schedule/passes.hpp) rewrite them; BoundSchedule gives
/// every device its memory and runs them.
namespace hugectr {

/// Where in a step a record runs. Records keep their order inside a phase.
/// Phases after Backward see what the exchange lane has done.
enum class Phase : int { Forward, Loss, Backward, Exchange, Update };

/// Who provides a symbolic tensor's memory.
enum class TensorRole : int {
  External,    ///< bound from outside: inputs, parameters, gradients of parameters, scalars
  Activation,  ///< lives in the arena; may be asked for by name after the step
  Gradient,    ///< lives in the arena; the aliasing pass may share its memory
  View,        ///< columns or a reshape of another tensor; owns nothing
};

struct ScheduleTensor {
  std::string name;
  Shape shape;  ///< per device; dimension 0 of an activation is the local batch
  TensorScalarType dtype = TensorScalarType::Float32;
  TensorRole role = TensorRole::Activation;
  int base = -1;                ///< View: the tensor whose memory this is (never itself a View)
  std::size_t offset = 0;       ///< View: first element inside a row of base
  std::size_t row_stride = 0;   ///< elements between rows; 0 = contiguous
  bool kept = false;            ///< written before or read after the records: never shares memory
  bool may_be_16_bits = false;  ///< takes 16 bits when the ops that use it do (cast_to_16_bits)
};

/// Elements of memory a tensor that owns its memory takes, the ends of its rows included.
inline std::size_t memory_elements(const ScheduleTensor& tensor) {
  return tensor.row_stride == 0 ? num_elements(tensor.shape) : tensor.shape[0] * tensor.row_stride;
}

/// Where a sum of gradients over devices runs.
enum class GradientSum {
  None,    ///< it is none
  Beside,  ///< on the exchange lane, while backward goes on
  Behind,  ///< on the step's own stream, when the lane has sent gradients of tables: beside their
           ///< update
};

struct OpRecord {
  AnyOp op;
  Phase phase = Phase::Forward;
  std::string layer;                    ///< the layer it came from, for messages and timelines
  GradientSum sum = GradientSum::None;  ///< left out where nobody needs gradients
  bool completes = false;  ///< behind it the tensors of BoundSchedule::watch() are written
  bool needs = false;      ///< before it the tensors of BoundSchedule::wait_for() must be written
  bool once = false;       ///< of the whole batch, where others run for each micro-batch
};

class HCTR_API StepSchedule {
 public:
  /// Adds a symbolic tensor; names are unique (InvalidArgument). Returns a ref whose `id` is set
  /// and whose data is null: put it into op records.
  TensorRef add_tensor(const std::string& name, const Shape& shape,
                       TensorRole role = TensorRole::Activation,
                       TensorScalarType dtype = TensorScalarType::Float32);
  void add(Phase phase, AnyOp op, std::string layer);
  /// The same of what runs once a step, however many micro-batches it has (split_samples.hpp). A
  /// phase has such records before or behind all others.
  void add_once(Phase phase, AnyOp op, std::string layer);

  /// Ref of a tensor by name; throws InvalidArgument listing near names when it is not there.
  TensorRef ref(const std::string& name) const;
  TensorRef ref(int id) const;
  bool has(const std::string& name) const { return ids_.count(name) != 0; }
  int id(const std::string& name) const;

  std::vector<ScheduleTensor>& tensors() { return tensors_; }
  const std::vector<ScheduleTensor>& tensors() const { return tensors_; }
  std::vector<OpRecord>& records() { return records_; }
  const std::vector<OpRecord>& records() const { return records_; }

  /// Marks a tensor that code outside the schedule writes before or reads after the records.
  void keep(const std::string& name) { tensors_[static_cast<std::size_t>(id(name))].kept = true; }

  /// Lets a float32 tensor take 16 bits in a network that computes in them.
  void let_be_16_bits(const TensorRef& ref) {
    tensors_.at(static_cast<std::size_t>(ref.id)).may_be_16_bits = true;
  }

  /// Gives the records the shapes, strides and roles tensors() has now. Passes call this last.
  void refresh_refs();
  /// Sorts the records by phase, stable.
  void order_by_phase();

 private:
  std::vector<ScheduleTensor> tensors_;
  std::map<std::string, int> ids_;
  std::vector<OpRecord> records_;
};

}  // namespace hugectr
