// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/bound_schedule.hpp"

#include <algorithm>

#include "core/cpp/device/stream.hpp"

namespace hugectr {
namespace {

/// Memory given from outside must be what the schedule was built for.
TensorRef external_ref(const ScheduleTensor& tensor,
                       const std::map<std::string, TensorRef>& external) {
  const auto it = external.find(tensor.name);
  HCTR_CHECK(it != external.end(), "schedule: no memory was given for '", tensor.name, "'");
  const TensorRef& given = it->second;
  HCTR_CHECK(given.dtype == tensor.dtype && given.shape == tensor.shape, "schedule: '", tensor.name,
             "' was given as ", to_string(given.dtype), " ", to_string(given.shape),
             ", the schedule has ", to_string(tensor.dtype), " ", to_string(tensor.shape));
  return given;
}

const void* end_of(const TensorRef& ref) {
  const std::size_t elements =
      ref.size() == 0 ? 0 : (ref.rows() - 1) * ref.row_stride + ref.row_size();
  return static_cast<const char*>(ref.data) + elements * size_of(ref.dtype);
}

/// Whether two tensors may have memory in common. Rows of views may lie between those of others:
/// who waits for more than is needed does no harm.
bool overlap(const TensorRef& a, const TensorRef& b) {
  return a.data < end_of(b) && b.data < end_of(a);
}

/// What an op complains about is of the layer that it came from.
void prepare(OpRecord& record, const OpContext& context) {
  try {
    record.op.prepare(context);
  } catch (const InvalidArgument& e) {
    throw InvalidArgument(concat("layer '", record.layer, "': ", e.what()));
  }
}

}  // namespace

BoundSchedule::BoundSchedule(const StepSchedule& schedule, const OpContext& context,
                             std::shared_ptr<MemoryResource> resource, const std::string& owner,
                             const std::map<std::string, TensorRef>& external, bool capture,
                             ExchangeLane* lane)
    : context_(context),
      owner_(owner),
      capture_(capture),
      lane_(lane),
      records_(schedule.records()) {
  const auto by_phase = [](const OpRecord& a, const OpRecord& b) { return a.phase < b.phase; };
  HCTR_CHECK(std::is_sorted(records_.begin(), records_.end(), by_phase),
             "the records of a schedule must be in the order of their phases: order_by_phase()");
  const MemoryPlan plan = plan_memory(schedule, fusion_enabled());
  arena_ = DeviceBuffer2::create(owner, DeviceAllocator(std::move(resource)));
  memory_ = arena_->reserve({plan.bytes}, TensorScalarType::UInt8, "activations and gradients");
  arena_->allocate();

  const auto& tensors = schedule.tensors();
  std::vector<TensorRef> refs(tensors.size());
  const auto place = [&](std::size_t id) {
    const ScheduleTensor& tensor = tensors[id];
    refs[id] = schedule.ref(static_cast<int>(id));
    if (tensor.role == TensorRole::External) {
      refs[id] = external_ref(tensor, external);
    } else if (const auto it = plan.offsets.find(static_cast<int>(id)); it != plan.offsets.end()) {
      refs[id].data = static_cast<char*>(memory_.get_ptr()) + it->second;
      refs[id].device = context_.device;
      report_.push_back(
          {owner, tensor.name, it->second, memory_elements(tensor) * size_of(tensor.dtype)});
    }
    refs[id].id = -1;
  };
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    if (tensors[id].role != TensorRole::View) place(id);
  }
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    const ScheduleTensor& tensor = tensors[id];
    if (tensor.role == TensorRole::View) {
      const TensorRef& base = refs[static_cast<std::size_t>(tensor.base)];
      refs[id] = schedule.ref(static_cast<int>(id));
      refs[id].id = -1;
      refs[id].device = base.device;
      if (base.data) {
        refs[id].data = static_cast<char*>(base.data) + tensor.offset * size_of(tensor.dtype);
      }
    }
    if (refs[id].data) {
      tensors_[tensor.name] = refs[id];
    } else {
      fused_away_[tensor.name] = true;
    }
  }
  for (OpRecord& record : records_) {
    record.op.for_each_tensor([&](const char*, Access, TensorRef& ref) {
      if (ref.id >= 0) ref = refs[static_cast<std::size_t>(ref.id)];
    });
    const bool beside = record.sum == GradientSum::Beside && lane_;
    prepare(record, beside ? lane_->context() : context_);
  }
  // Padding rows and never-written scratch read as zero in the first step as in all later ones.
  // Last, because nothing may be queued on memory that an error above gives back.
  context_.stream->fill_zero(memory_.get_ptr(), plan.bytes);
}

std::optional<std::size_t> BoundSchedule::wait_for(const std::vector<std::string>& names) {
  std::size_t before = 0;
  for (OpRecord& record : records_) {
    if (record.phase != Phase::Forward) break;
    bool touches = false;
    record.op.for_each_tensor([&](const char*, Access, const TensorRef& ref) {
      for (const std::string& name : names) touches |= overlap(ref, tensor(name));
    });
    if (touches) {
      record.needs = true;
      return before;
    }
    ++before;
  }
  return std::nullopt;
}

bool BoundSchedule::watch(const std::vector<std::string>& names) {
  OpRecord* last = nullptr;
  for (OpRecord& record : records_) {
    if (record.phase != Phase::Backward) continue;
    record.op.for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      if (access == Access::In) return;
      for (const std::string& name : names) {
        if (overlap(ref, tensor(name))) last = &record;
      }
    });
  }
  if (last) last->completes = true;
  return last != nullptr;
}

void BoundSchedule::run(Phase first, Phase last, const std::function<void()>& completed,
                        const std::function<void()>& needed) {
  if (lane_ && first > Phase::Backward) lane_->join(*context_.stream);
  auto range = ranges_.find({first, last});
  if (range == ranges_.end()) {
    const auto begin = std::find_if(records_.begin(), records_.end(),
                                    [&](const OpRecord& record) { return record.phase >= first; });
    const auto end = std::find_if(begin, records_.end(),
                                  [&](const OpRecord& record) { return record.phase > last; });
    CapturedRange made(context_, {begin, end}, owner_, capture_, lane_);
    range = ranges_.emplace(std::pair(first, last), std::move(made)).first;
  }
  range->second.run(completed, needed);
}

std::size_t BoundSchedule::captured_pieces() const {
  std::size_t pieces = 0;
  for (const auto& [phases, range] : ranges_) pieces += range.captured_pieces();
  return pieces;
}

TensorRef BoundSchedule::tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it != tensors_.end()) return it->second;
  HCTR_CHECK(fused_away_.count(name) == 0, "tensor '", name,
             "' was fused away and has no memory; run with HUGECTR_FUSE=0 to look at it");
  std::string known;
  for (const auto& [tensor, ref] : tensors_) {
    if (tensor.find('@') == std::string::npos) known += (known.empty() ? "" : ", ") + tensor;
  }
  throw InvalidArgument(concat("there is no tensor '", name, "'; known: ", known));
}

std::vector<std::string> BoundSchedule::op_names() const {
  std::vector<std::string> names;
  for (const OpRecord& record : records_) names.emplace_back(record.op.name());
  return names;
}

}  // namespace hugectr
