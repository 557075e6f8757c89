// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/require.hpp"

namespace hugectr::fuzzing {
namespace {

/// A chunk as values, to be compared.
struct ChunkCopy {
  std::size_t samples = 0, skipped = 0;
  std::vector<std::uint8_t> bytes;
  bool operator==(const ChunkCopy&) const = default;
};

void append(ChunkCopy& copy, const StagingArray& array, std::size_t bytes) {
  require(bytes <= array.capacity(), "arrays have room for what they hold");
  const auto* from = array.as<std::uint8_t>();
  copy.bytes.insert(copy.bytes.end(), from, from + bytes);
}

/// What csr_chunk.hpp promises of any chunk, whatever the data was.
void check_csr(const FuzzCase& made, const SparseInput& input, const HostCsr& csr,
               const CSRChunk& chunk) {
  const auto* offsets = csr.row_offsets.as<offset_t>();
  const float* weight = chunk.weight.as<float>();
  require(offsets[0] == 0, "offsets begin with 0");
  for (std::size_t sample = 0; sample < made.batch; ++sample) {
    const offset_t* rows = offsets + sample * input.slot_num;
    const std::size_t keys = rows[input.slot_num] - rows[0];
    for (std::size_t s = 0; s < input.slot_num; ++s) {
      require(rows[s] <= rows[s + 1], "offsets do not fall");
      if (input.is_fixed_length && weight[sample] != 0.0f) {
        require(rows[s + 1] - rows[s] == static_cast<offset_t>(input.nnz_per_slot[s]),
                "slots of a fixed length have it");
      }
    }
    require(keys <= input.max_feature_num(), "a sample has no more keys than the Input allows");
    require(weight[sample] != 0.0f || keys == 0, "a sample that does not count has no keys");
  }
  require(offsets[made.batch * input.slot_num] == csr.nnz, "the last offset is nnz");
}

ChunkCopy check_chunk(const FuzzCase& made, const CSRChunk& chunk, std::size_t claimed) {
  const InputLayout& layout = made.layout;
  require(chunk.samples == claimed && claimed <= made.batch, "a chunk holds what was claimed");
  std::size_t counted = 0;
  for (std::size_t i = 0; i < made.batch; ++i) {
    const float weight = chunk.weight.as<float>()[i];
    require(weight == 0.0f || (weight == 1.0f && i < claimed), "weights are 0 or 1, padding 0");
    counted += weight == 1.0f ? 1 : 0;
  }
  require(counted + chunk.skipped == chunk.samples, "samples count or are skipped");
  ChunkCopy copy{chunk.samples, chunk.skipped, {}};
  append(copy, chunk.label, made.batch * layout.label_dim * 4);
  append(copy, chunk.dense, made.batch * layout.dense_dim * 4);
  append(copy, chunk.weight, made.batch * 4);
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    check_csr(made, layout.sparse[i], chunk.sparse[i], chunk);
    append(copy, chunk.sparse[i].keys, chunk.sparse[i].nnz * (layout.i64_keys ? 8 : 4));
    append(copy, chunk.sparse[i].row_offsets, (made.batch * layout.sparse[i].slot_num + 1) * 4);
  }
  return copy;
}

/// Any place at all, as a damaged checkpoint might name it.
ReadPosition place_of(const std::string& data) {
  std::uint8_t words[5] = {};
  std::memcpy(words, data.data(), std::min(data.size(), sizeof words));
  ReadPosition place{words[0] % 2u, words[1], words[2] % 3u, words[3], words[4]};
  // Far away, too.
  if (words[3] == 255) place.record = place.sample = ~std::uint64_t{0};
  if (words[4] == 255) place.byte = ~std::uint64_t{0} - words[2];
  return place;
}

class CaseReader {
 public:
  CaseReader(const FuzzCase& made, IBatchSource& source)
      : made_(made),
        source_(source),
        raw_(source.make_raw_batch()),
        chunk_(make_csr_chunk(made.layout, made.batch, make_host_memory_resource())) {}

  std::optional<ChunkCopy> next() {
    if (!source_.claim(*raw_, made_.batch)) return std::nullopt;
    require(raw_->samples > 0, "a batch that was claimed has samples");
    source_.parse(*raw_, made_.batch, chunk_);
    return check_chunk(made_, chunk_, raw_->samples);
  }
  ReadPosition position() const { return raw_->next; }

 private:
  const FuzzCase& made_;
  IBatchSource& source_;
  std::unique_ptr<RawBatch> raw_;
  CSRChunk chunk_;
};

void read_all(const FuzzCase& made, IBatchSource& source, std::uint64_t* samples) {
  CaseReader reader(made, source);
  std::optional<ReadPosition> behind_first;
  std::optional<ChunkCopy> second;
  for (std::size_t batch = 0; batch < FuzzCase::kMostBatches; ++batch) {
    std::optional<ChunkCopy> chunk = reader.next();
    if (!chunk) break;
    *samples += chunk->samples;
    if (batch == 0) behind_first = reader.position();
    if (batch == 1) second = std::move(chunk);
  }
  if (!second) return;
  source.seek(*behind_first);
  require(reader.next() == second, "what is read again after seek() is the same");
}

}  // namespace

std::uint64_t read_case(const FuzzCase& made,
                        const std::function<std::unique_ptr<IBatchSource>()>& make_source) {
  set_log_level(LogLevel::Silent);
  std::uint64_t samples = 0;
  try {
    const auto source = make_source();
    if (made.jump) source->seek(place_of(made.data));
    read_all(made, *source, &samples);
  } catch (const DataError&) {
  } catch (const InvalidArgument&) {
  }
  return samples;
}

}  // namespace hugectr::fuzzing
