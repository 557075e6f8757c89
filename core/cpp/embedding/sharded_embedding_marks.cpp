// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/sharded_embedding.hpp"
#include "core/cpp/ops/stamp_rows.hpp"

/// Which rows were touched since a moment, and whose rows are whose.
namespace hugectr {

template <class Key>
RowMark ShardedEmbedding<Key>::mark() {
  require_no_plan("mark");
  if (now_ == 0) {
    for (auto& data : devices_) {
      data->stamps = GrowableTensor(*data->memory, TensorScalarType::UInt32, 1, data->max_rows,
                                    data->owner + " stamps of touched rows");
      data->stamps.grow_to(data->weights.rows());
    }
  }
  return ++now_;
}

template <class Key>
bool ShardedEmbedding<Key>::knows_since(RowMark since) const {
  return since > forgotten_ && since <= now_;
}

template <class Key>
void ShardedEmbedding<Key>::stamp(const OpContext& context, const TensorRef& stamps,
                                  const TensorRef& rows, const TensorRef& count,
                                  std::size_t first) const {
  if (rows.size() == 0) return;
  run(context, StampRows{.rows = rows,
                         .count = count,
                         .stamps = stamps,
                         .first = static_cast<std::int64_t>(first),
                         .stamp = static_cast<std::int64_t>(now_)});
}

template <class Key>
std::size_t ShardedEmbedding<Key>::owner(std::int64_t wide, std::size_t slot) const {
  const std::string& name = params_.name;
  HCTR_CHECK(slot < params_.slot_num, "embedding '", name, "' has ", params_.slot_num,
             " slots, the rows to load name slot ", slot);
  const Key key = static_cast<Key>(wide);
  HCTR_CHECK(static_cast<std::int64_t>(key) == wide && key != kEmptyKey<Key>, "embedding '", name,
             "': key ", wide, " is not one of ", to_string(ScalarTypeOf<Key>::value),
             " below the reserved ", kEmptyKey<Key>);
  return devices_[0]->distribution->owner(widen_key(key), slot);
}

template <class Key>
std::vector<std::uint32_t> ShardedEmbedding<Key>::row_processes(
    const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const {
  const bool localized = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  HCTR_CHECK(!localized || slot_ids.size() == keys.size(), "embedding '", params_.name,
             "' is Localized: its rows need a slot id a key, got ", slot_ids.size(), " for ",
             keys.size(), " keys");
  std::vector<std::uint32_t> processes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t device = owner(keys[i], localized ? slot_ids[i] : 0);
    processes[i] =
        static_cast<std::uint32_t>(resources_->get_process_id_from_gpu_global_id(device));
  }
  return processes;
}

// Members of this file; sharded_embedding.cpp instantiates the class with all the others.
template RowMark ShardedEmbedding<std::uint32_t>::mark();
template bool ShardedEmbedding<std::uint32_t>::knows_since(RowMark) const;
template void ShardedEmbedding<std::uint32_t>::stamp(const OpContext&, const TensorRef&,
                                                     const TensorRef&, const TensorRef&,
                                                     std::size_t) const;
template std::size_t ShardedEmbedding<std::uint32_t>::owner(std::int64_t, std::size_t) const;
template std::vector<std::uint32_t> ShardedEmbedding<std::uint32_t>::row_processes(
    const std::vector<std::int64_t>&, const std::vector<std::uint64_t>&) const;
template RowMark ShardedEmbedding<std::int64_t>::mark();
template bool ShardedEmbedding<std::int64_t>::knows_since(RowMark) const;
template void ShardedEmbedding<std::int64_t>::stamp(const OpContext&, const TensorRef&,
                                                    const TensorRef&, const TensorRef&,
                                                    std::size_t) const;
template std::size_t ShardedEmbedding<std::int64_t>::owner(std::int64_t, std::size_t) const;
template std::vector<std::uint32_t> ShardedEmbedding<std::int64_t>::row_processes(
    const std::vector<std::int64_t>&, const std::vector<std::uint64_t>&) const;

}  // namespace hugectr
