// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/batch_slots.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TensorRef view(const StagingArray& array, TensorScalarType dtype, DeviceId device, Shape shape) {
  TensorRef ref;
  ref.data = const_cast<void*>(static_cast<const void*>(array.as<char>()));
  ref.dtype = dtype;
  ref.device = device;
  ref.shape = std::move(shape);
  ref.row_stride = ref.row_size();
  return ref;
}

}  // namespace

BatchSlot::DeviceArrays::DeviceArrays(const InputLayout& layout, std::size_t batch_size,
                                      std::size_t devices,
                                      const std::shared_ptr<MemoryResource>& memory) {
  const auto array = [&](std::size_t bytes) {
    StagingArray result(memory);
    result.reserve(std::max<std::size_t>(bytes, 1));
    return result;
  };
  const std::size_t local_batch = batch_size / devices;
  label = array(local_batch * layout.label_dim * sizeof(float));
  dense = array(local_batch * layout.dense_dim * sizeof(float));
  weight = array(local_batch * sizeof(float));
  for (const SparseInput& input : layout.sparse) {
    const std::size_t of_sample = input.is_fixed_length ? input.max_feature_num() : input.slot_num;
    keys.push_back(array(batch_size * of_sample * (layout.i64_keys ? 8 : 4)));
    row_offsets.push_back(array((batch_size * input.slot_num + 1) * sizeof(offset_t)));
  }
}

std::size_t BatchSlot::DeviceArrays::bytes() const {
  std::size_t sum = label.capacity() + dense.capacity() + weight.capacity();
  for (const StagingArray& array : keys) sum += array.capacity();
  for (const StagingArray& array : row_offsets) sum += array.capacity();
  return sum;
}

BatchSlots::BatchSlots(const InputLayout& layout, std::size_t batch_size,
                       ResourceManager& resources)
    : slots_(IDataReader::kSlots) {
  for (BatchSlot& slot : slots_) make_slot(slot, layout, batch_size, resources);
  for (std::size_t id = 0; id < resources.get_local_gpu_count(); ++id) {
    const std::size_t bytes = slots_.size() * slots_.front().arrays[id].bytes();
    held_by_device_.push_back(
        {to_string(resources.get_local_gpu(id).device()), "batches", 0, bytes});
  }
  for (auto* places : {&free_, &published_, &held_}) places->reserve(slots_.size());
  for (BatchSlot& slot : slots_) free_.push_back(&slot);
}

BatchSlots::~BatchSlots() {
  try {
    synchronize();
  } catch (...) {  // a broken device can not be waited for; whoever runs steps on it reports it
  }
}

void BatchSlots::make_slot(BatchSlot& slot, const InputLayout& layout, std::size_t batch_size,
                           ResourceManager& resources) {
  const std::size_t devices = resources.get_global_gpu_count();
  const std::size_t local_batch = batch_size / devices;
  for (std::size_t id = 0; id < resources.get_local_gpu_count(); ++id) {
    GPUResource& gpu = resources.get_local_gpu(id);
    BatchSlot::DeviceArrays arrays(layout, batch_size, devices, gpu.memory_resource());
    DeviceBatch device;
    const auto floats = [&](const StagingArray& store, Shape shape) {
      return view(store, TensorScalarType::Float32, gpu.device(), std::move(shape));
    };
    device.label = floats(arrays.label, {local_batch, layout.label_dim});
    device.dense = floats(arrays.dense, {local_batch, layout.dense_dim});
    device.sample_weight = floats(arrays.weight, {local_batch});
    for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
      SparseTensor sparse;
      sparse.keys =
          view(arrays.keys[i], layout.i64_keys ? TensorScalarType::Int64 : TensorScalarType::UInt32,
               gpu.device(), {0});
      sparse.row_offsets = view(arrays.row_offsets[i], TensorScalarType::UInt32, gpu.device(),
                                {batch_size * layout.sparse[i].slot_num + 1});
      device.sparse.push_back(std::move(sparse));
    }
    device.ready = gpu.create_event();
    device.consumed = gpu.create_event();
    slot.batch.devices.push_back(std::move(device));
    slot.arrays.push_back(std::move(arrays));
  }
}

BatchSlot* BatchSlots::wait_free() {
  std::unique_lock lock(mutex_);
  free_changed_.wait(lock, [&] { return stopped_ || !free_.empty(); });
  if (stopped_) return nullptr;
  BatchSlot* slot = free_.front();
  free_.erase(free_.begin());
  return slot;
}

void BatchSlots::publish(BatchSlot* slot) {
  {
    const std::lock_guard lock(mutex_);
    published_.push_back(slot);
  }
  published_changed_.notify_all();
}

void BatchSlots::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    error_ = std::move(error);
  }
  published_changed_.notify_all();
}

Batch* BatchSlots::acquire() {
  std::unique_lock lock(mutex_);
  HCTR_CHECK(held_.size() < IDataReader::kSlots, "all ", IDataReader::kSlots,
             " batches are held; release one before the next acquire()");
  published_changed_.wait(lock, [&] { return finished_ || !published_.empty(); });
  if (published_.empty()) {
    if (error_) std::rethrow_exception(error_);
    end_seen_ = true;
    return nullptr;
  }
  BatchSlot* slot = published_.front();
  published_.erase(published_.begin());
  held_.push_back(slot);
  return &slot->batch;
}

void BatchSlots::release(Batch* batch) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(held_.begin(), held_.end(),
                                    [&](BatchSlot* slot) { return &slot->batch == batch; });
    HCTR_CHECK(found != held_.end(), "release() of a batch that is not held");
    free_.push_back(*found);
    held_.erase(found);
  }
  free_changed_.notify_all();
}

std::size_t BatchSlots::published() const {
  const std::lock_guard lock(mutex_);
  return published_.size();
}

bool BatchSlots::at_end() const {
  const std::lock_guard lock(mutex_);
  return end_seen_;
}

void BatchSlots::report_memory(const std::string& name,
                               std::vector<MemoryReportEntry>& report) const {
  for (const MemoryReportEntry& device : held_by_device_) {
    report.push_back({concat(name, " on ", device.owner), device.name, 0, device.bytes});
  }
}

void BatchSlots::check_none_held() const {
  const std::lock_guard lock(mutex_);
  HCTR_CHECK(held_.empty(), held_.size(),
             " batches are still held; release them before set_source()");
}

void BatchSlots::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  free_changed_.notify_all();
}

void BatchSlots::synchronize() {
  for (BatchSlot& slot : slots_) {
    for (DeviceBatch& device : slot.batch.devices) {
      device.ready->synchronize();
      device.consumed->synchronize();
    }
  }
}

void BatchSlots::reset() {
  synchronize();
  const std::lock_guard lock(mutex_);
  free_.clear();
  published_.clear();
  for (BatchSlot& slot : slots_) free_.push_back(&slot);
  error_ = nullptr;
  finished_ = stopped_ = end_seen_ = false;
}

}  // namespace hugectr
