// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/data/shared_data.hpp"

#include <set>
#include <stdexcept>

#include "core/cpp/base/error.hpp"

namespace hugectr::testing {
namespace {

class TableFormat final : public IBlockFormat {
 public:
  TableFormat(std::shared_ptr<const std::vector<Sample>> samples, std::vector<std::uint64_t> rows,
              const InputLayout& layout, std::vector<std::size_t> damaged)
      : samples_(std::move(samples)), layout_(layout), damaged_(damaged.begin(), damaged.end()) {
    for (const std::uint64_t count : rows) blocks_.push_back({0, count});
  }
  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  void set_source(const std::string&) override {}
  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    if (damaged_.count(block)) throw DataError(concat("file 'table', block ", block));
    std::size_t first = 0;
    for (std::size_t b = 0; b < block; ++b) first += blocks_[b].rows;
    return std::make_shared<Block>(samples_, first, layout_);
  }

 private:
  class Block final : public IBlock {
   public:
    Block(std::shared_ptr<const std::vector<Sample>> samples, std::size_t first,
          const InputLayout& layout)
        : samples_(std::move(samples)), first_(first), layout_(layout) {}
    std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override {
      std::size_t keys = 0;
      for (std::size_t i = 0; i < count; ++i) {
        for_each_slot(input, first + i, [&](const auto& slot) { keys += slot.size(); });
      }
      return keys;
    }
    std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                          CSRChunk& chunk) const override {
      for (std::size_t i = 0; i < count; ++i) {
        const Sample& sample = (*samples_)[first_ + first + i];
        std::copy(sample.label.begin(), sample.label.end(),
                  chunk.label.as<float>() + (at + i) * layout_.label_dim);
        std::copy(sample.dense.begin(), sample.dense.end(),
                  chunk.dense.as<float>() + (at + i) * layout_.dense_dim);
        chunk.weight.as<float>()[at + i] = 1.0f;
      }
      for (std::size_t input = 0; input < layout_.sparse.size(); ++input) {
        HostCsr& csr = chunk.sparse[input];
        offset_t* offsets = csr.row_offsets.as<offset_t>() + at * layout_.sparse[input].slot_num;
        *offsets = static_cast<offset_t>(csr.nnz);
        for (std::size_t i = 0; i < count; ++i) {
          for_each_slot(input, first + i, [&](const std::vector<std::int64_t>& slot) {
            for (const std::int64_t key : slot) {
              if (layout_.i64_keys) {
                csr.keys.as<std::int64_t>()[csr.nnz++] = key;
              } else {
                csr.keys.as<std::uint32_t>()[csr.nnz++] = static_cast<std::uint32_t>(key);
              }
            }
            *++offsets = static_cast<offset_t>(csr.nnz);
          });
        }
      }
      return 0;
    }

   private:
    template <class F>
    void for_each_slot(std::size_t input, std::size_t row, const F& f) const {
      std::size_t slot = 0;
      for (std::size_t i = 0; i < input; ++i) slot += layout_.sparse[i].slot_num;
      for (std::size_t s = 0; s < layout_.sparse[input].slot_num; ++s) {
        f((*samples_)[first_ + row].keys[slot + s]);
      }
    }
    std::shared_ptr<const std::vector<Sample>> samples_;
    const std::size_t first_;
    const InputLayout& layout_;
  };

  std::shared_ptr<const std::vector<Sample>> samples_;
  const InputLayout layout_;
  std::set<std::size_t> damaged_;
  std::vector<BlockInfo> blocks_;
  std::vector<std::string> files_{"table"};
};

}  // namespace

ProcessRead read_all(IDataReader& reader, std::size_t most) {
  ProcessRead read;
  try {
    while (read.batches.size() < most) {
      Batch* batch = reader.acquire();
      if (!batch) break;
      read.batches.push_back({copy_batch(*batch), batch->next});
      reader.release(batch);
    }
  } catch (const DataError& error) {
    read.error = error.what();
  }
  const ReaderMetrics metrics = reader.metrics();
  read.rows_decoded = metrics.rows_decoded;
  read.bad_samples = metrics.bad_samples;
  return read;
}

std::vector<JobBatch> join(const std::vector<ProcessRead>& reads) {
  std::vector<JobBatch> result = reads.front().batches;
  for (std::size_t p = 1; p < reads.size(); ++p) {
    if (reads[p].batches.size() != result.size() || reads[p].error != reads[0].error) {
      throw std::runtime_error("processes read different numbers of batches: " + reads[0].error +
                               " | " + reads[p].error);
    }
    for (std::size_t b = 0; b < result.size(); ++b) {
      JobBatch part = reads[p].batches[b];
      HostBatch& whole = result[b].batch;
      const auto append = [](std::vector<float>& to, std::vector<float>& from) {
        to.insert(to.end(), from.begin(), from.end());
        from.clear();
      };
      append(whole.label, part.batch.label);
      append(whole.dense, part.batch.dense);
      append(whole.weight, part.batch.weight);
      JobBatch same = result[b];
      same.batch.label.clear();
      same.batch.dense.clear();
      same.batch.weight.clear();
      if (part != same) throw std::runtime_error("processes received different keys");
    }
  }
  return result;
}

std::unique_ptr<IBlockFormat> make_table_format(std::shared_ptr<const std::vector<Sample>> samples,
                                                std::vector<std::uint64_t> block_rows,
                                                const InputLayout& layout,
                                                std::vector<std::size_t> damaged) {
  return std::make_unique<TableFormat>(std::move(samples), std::move(block_rows), layout,
                                       std::move(damaged));
}

std::string raw_bytes(const std::vector<Sample>& samples) {
  std::string bytes;
  for (const Sample& sample : samples) {
    for (const float x : sample.label) append(bytes, x);
    for (const float x : sample.dense) append(bytes, x);
    for (const auto& slot : sample.keys) {
      for (const std::int64_t key : slot) append(bytes, static_cast<std::uint32_t>(key));
    }
  }
  return bytes;
}

std::vector<ProcessRead> read_job(std::size_t processes, std::size_t devices, std::size_t workers,
                                  std::size_t batch, const InputLayout& layout,
                                  const MakeSource& make, std::size_t most) {
  std::vector<ProcessRead> reads(processes);
  run_job(processes, devices, [&](const JobProcess& process) {
    const auto reader = make_data_reader(make(process), layout, batch, workers, process.resources);
    reads[process.rank] = read_all(*reader, most);
  });
  return reads;
}

}  // namespace hugectr::testing
