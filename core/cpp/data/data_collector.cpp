// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/data_collector.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"

namespace hugectr {

DataCollector::DataCollector(HeapEx& heap, BatchSlots& slots, ReaderLedger& ledger,
                             const InputLayout& layout, std::size_t batch_size,
                             ResourceManager& resources, BatchExchange* exchange,
                             BadDataLimit limit)
    : heap_(heap),
      slots_(slots),
      ledger_(ledger),
      layout_(layout),
      batch_size_(batch_size),
      resources_(resources),
      exchange_(exchange),
      limit_(std::move(limit)),
      thread_([this] {
        heap_.stop();
        slots_.stop();
      }) {
  if (exchange_) exchange_->begin_pass();
  thread_.start("hctr-collect", [this] { run(); });
}

HCTR_MAY_BE_UNWOUND void DataCollector::run() {
  std::exception_ptr error;
  try {
    collect_all();
  }
  HCTR_CATCH_FORCED_UNWIND(heap_.stop();
                           slots_.finish(std::make_exception_ptr(DataError(kThreadWasEnded))))
  catch (...) {
    error = std::current_exception();
  }
  const bool stopped = heap_.stopped();
  if (error) heap_.stop();  // nobody will take what the workers parse
  if (exchange_) error = exchange_->leave(error, stopped);
  slots_.finish(error);
}

void DataCollector::collect_all() {
  for (std::size_t sequence = 0;; ++sequence) {
    const HeapEx::Depths depths = heap_.depths();
    CSRChunk* chunk = next_chunk(sequence);
    if (!chunk) {
      if (!heap_.stopped()) limit_.end(heap_.lost_at_end());
      return;
    }
    if (exchange_) chunk = make_whole(chunk);
    limit_.add(*chunk);
    BatchSlot* slot = slots_.wait_free();
    if (!slot) return;
    copy_to_devices(*chunk, *slot);
    slots_.publish(slot);
    ledger_.count_batch(depths.ready, depths.credit);
    in_flight_.push_back({chunk, slot});
    drain(1);
  }
}

CSRChunk* DataCollector::next_chunk(std::size_t sequence) {
  const ReaderLedger::Timer timer(ledger_, &ReaderMetrics::ready_seconds);
  // While there is nothing to copy, there is time to wait for the copies.
  if (!heap_.has_ready(sequence)) drain(0);
  return heap_.pop_ready(sequence);
}

void DataCollector::drain(std::size_t keep) {
  while (in_flight_.size() > keep) {
    const InFlight oldest = in_flight_.front();
    // Only this thread records `ready`, and not again before the slot has gone round.
    for (DeviceBatch& device : oldest.slot->batch.devices) device.ready->synchronize();
    in_flight_.pop_front();
    give_back(oldest.chunk);
  }
}

CSRChunk* DataCollector::make_whole(CSRChunk* part) {
  CSRChunk* const whole = exchange_->exchange(*part);
  heap_.return_credit(part);
  return whole;
}

void DataCollector::give_back(CSRChunk* chunk) {
  exchange_ ? exchange_->give_back(chunk) : heap_.return_credit(chunk);
}

void DataCollector::copy_to_devices(const CSRChunk& chunk, BatchSlot& slot) {
  slot.batch.sequence = chunk.sequence;
  slot.batch.samples = chunk.samples;
  slot.batch.next = chunk.next;
  slot.batch.weight_sum = static_cast<double>(chunk.samples - chunk.skipped);
  const std::size_t local_batch = batch_size_ / resources_.get_global_gpu_count();
  for (std::size_t id = 0; id < slot.batch.devices.size(); ++id) {
    GPUResource& gpu = resources_.get_local_gpu(id);
    DeviceBatch& device = slot.batch.devices[id];
    Stream& stream = gpu.memcpy_stream();
    stream.wait(*device.consumed);
    const std::size_t first = gpu.get_global_id() * local_batch;
    const auto copy_rows = [&](const StagingArray& from, std::size_t width, TensorRef& to) {
      if (width == 0) return;
      stream.copy(to.data, from.as<float>() + first * width, local_batch * width * sizeof(float));
    };
    copy_rows(chunk.label, layout_.label_dim, device.label);
    copy_rows(chunk.dense, layout_.dense_dim, device.dense);
    copy_rows(chunk.weight, 1, device.sample_weight);
    copy_csr(chunk, id, slot);
    stream.record(*device.ready);
  }
}

void DataCollector::copy_csr(const CSRChunk& chunk, std::size_t local_id, BatchSlot& slot) {
  Stream& stream = resources_.get_local_gpu(local_id).memcpy_stream();
  DeviceBatch& device = slot.batch.devices[local_id];
  const std::size_t key_bytes = layout_.i64_keys ? 8 : 4;
  for (std::size_t i = 0; i < chunk.sparse.size(); ++i) {
    const HostCsr& csr = chunk.sparse[i];
    SparseTensor& sparse = device.sparse[i];
    StagingArray& keys = slot.arrays[local_id].keys[i];
    if (csr.nnz * key_bytes > keys.capacity()) {
      // The old memory may still be read by the batch that lay here before. Rare: it only grows.
      device.ready->synchronize();
      device.consumed->synchronize();
      keys.reserve(csr.nnz * key_bytes);
      sparse.keys.data = keys.as<void>();
    }
    sparse.nnz = csr.nnz;
    sparse.keys.shape = {csr.nnz};
    if (csr.nnz > 0) stream.copy(sparse.keys.data, csr.keys.as<char>(), csr.nnz * key_bytes);
    stream.copy(sparse.row_offsets.data, csr.row_offsets.as<char>(),
                sparse.row_offsets.size_in_bytes());
  }
}

}  // namespace hugectr
