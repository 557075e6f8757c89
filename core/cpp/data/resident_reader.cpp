// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/resident_reader.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/staging_array.hpp"

namespace hugectr {
namespace {

/// A batch with its memory on the devices.
struct ResidentBatch {
  Batch batch;
  std::vector<StagingArray> arrays;
};

class ResidentReader final : public IDataReader {
 public:
  ResidentReader(std::function<std::unique_ptr<IDataReader>()> make_reader, std::size_t batches,
                 std::shared_ptr<ResourceManager> resources)
      : resources_(std::move(resources)),
        make_reader_(std::move(make_reader)),
        wanted_(batches),
        inner_(make_reader_()),
        batch_size_(inner_->batch_size()) {
    inner_->report_memory("", held_by_device_);
    for (MemoryReportEntry& device : held_by_device_)
      device.bytes = device.bytes / kSlots * wanted_;
  }

  ~ResidentReader() override {
    try {
      wait_for_consumers();
    } catch (...) {  // a broken device can not be waited for; whoever runs steps on it reports it
    }
  }

  void start() override {
    if (inner_) inner_->start();
  }

  Batch* acquire() override {
    if (inner_) read_all();
    const std::lock_guard lock(mutex_);
    HCTR_CHECK(held_.size() < kSlots, "all ", kSlots,
               " batches are held; release one before the next acquire()");
    Batch& batch = batches_[served_ % batches_.size()]->batch;
    batch.sequence = served_++;
    ++metrics_.batches;
    held_.push_back(&batch);
    return &batch;
  }

  void release(Batch* batch) override {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(held_.begin(), held_.end(), batch);
    HCTR_CHECK(found != held_.end(), "release() of a batch that is not held");
    held_.erase(found);
  }

  void set_source(const std::string& source) override {
    HCTR_CHECK(held_.empty(), "set_source() while ", held_.size(), " batches are held");
    served_ = 0;
    if (source.empty() && !inner_) return;
    if (!inner_) inner_ = make_reader_();
    inner_->set_source(source);
    wait_for_consumers();
    batches_.clear();
  }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(held_.empty(), "seek() while ", held_.size(), " batches are held");
    if (inner_) read_all();
    const auto before = [&](const auto& kept) { return kept->batch.next == position; };
    const auto found = std::find_if(batches_.begin(), batches_.end(), before);
    HCTR_CHECK(found != batches_.end() || position == ReadPosition{},
               "resident batches: none of the ", batches_.size(),
               " ends at the position asked for: give as many as the run that was there had");
    served_ = found == batches_.end() ? 0 : static_cast<std::size_t>(found - batches_.begin()) + 1;
  }

  void close() override {
    if (inner_) inner_->close();
  }

  bool is_eof() const override { return false; }
  std::size_t batch_size() const override { return batch_size_; }

  void report_memory(const std::string& name,
                     std::vector<MemoryReportEntry>& report) const override {
    for (const MemoryReportEntry& device : held_by_device_) {
      report.push_back({name + device.owner, device.name, 0, device.bytes});
    }
  }

  ReaderMetrics metrics() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(metrics_, {});
  }

 private:
  void read_all() {
    while (batches_.size() < wanted_) {
      Batch* const batch = inner_->acquire();
      HCTR_CHECK(batch != nullptr, "resident batches: the data ends after ", batches_.size(),
                 " batches, ", wanted_, " are asked for: they need repeat_dataset");
      try {
        batches_.push_back(keep(*batch));
      } catch (...) {
        inner_->release(batch);
        throw;
      }
      inner_->release(batch);
    }
    {
      const std::lock_guard lock(mutex_);
      metrics_ = inner_->metrics();
      metrics_.batches = 0;
    }
    inner_.reset();  // joins threads, and who asks for the metrics must not wait for those
  }

  std::unique_ptr<ResidentBatch> keep(const Batch& from) {
    auto kept = std::make_unique<ResidentBatch>();
    kept->batch.samples = from.samples;
    kept->batch.weight_sum = from.weight_sum;
    kept->batch.next = from.next;
    for (std::size_t id = 0; id < from.devices.size(); ++id) {
      kept->batch.devices.push_back(keep_on(id, from.devices[id], kept->arrays));
    }
    return kept;
  }

  DeviceBatch keep_on(std::size_t id, const DeviceBatch& from, std::vector<StagingArray>& arrays) {
    GPUResource& gpu = resources_->get_local_gpu(id);
    Stream& stream = gpu.memcpy_stream();
    const auto copy = [&](TensorRef ref) {
      StagingArray array(gpu.memory_resource());
      array.reserve(std::max<std::size_t>(ref.size_in_bytes(), 1));
      stream.copy(array.as<void>(), ref.data, ref.size_in_bytes());
      ref.data = array.as<void>();
      arrays.push_back(std::move(array));
      return ref;
    };
    stream.wait(*from.ready);
    DeviceBatch kept;
    kept.label = copy(from.label);
    kept.dense = copy(from.dense);
    kept.sample_weight = copy(from.sample_weight);
    for (const SparseTensor& sparse : from.sparse) {
      kept.sparse.push_back({copy(sparse.keys), copy(sparse.row_offsets), sparse.nnz});
    }
    kept.ready = gpu.create_event();
    kept.consumed = gpu.create_event();
    stream.record(*kept.ready);
    stream.record(*from.consumed);
    return kept;
  }

  void wait_for_consumers() {
    for (const auto& kept : batches_) {
      for (DeviceBatch& device : kept->batch.devices) {
        device.ready->synchronize();
        device.consumed->synchronize();
      }
    }
  }

  std::shared_ptr<ResourceManager> resources_;
  std::function<std::unique_ptr<IDataReader>()> make_reader_;
  const std::size_t wanted_;
  std::vector<std::unique_ptr<ResidentBatch>> batches_;
  std::unique_ptr<IDataReader> inner_;  ///< until the batches are read
  const std::size_t batch_size_;
  std::vector<MemoryReportEntry> held_by_device_;
  std::mutex mutex_;  ///< of what follows: one thread acquires, another releases
  std::vector<Batch*> held_;
  std::size_t served_ = 0;
  ReaderMetrics metrics_;
};

}  // namespace

std::unique_ptr<IDataReader> make_resident_reader(
    std::function<std::unique_ptr<IDataReader>()> make_reader, std::size_t batches,
    std::shared_ptr<ResourceManager> resources) {
  HCTR_CHECK(batches > 0, "resident batches: 0 asked for, allowed is 1 or more");
  return std::make_unique<ResidentReader>(std::move(make_reader), batches, std::move(resources));
}

}  // namespace hugectr
