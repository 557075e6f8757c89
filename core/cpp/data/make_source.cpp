// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/make_source.hpp"

#include <utility>

#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

/// The format of a reader and, in `reading`, how its blocks are read. `processes`: null, or those
/// that share the decoding.
std::unique_ptr<IBlockFormat> make_format(const ReaderSpec& reader, const InputLayout& layout,
                                          bool train, IProcessGroup* processes,
                                          BlockReading& reading) {
  if (const auto& memory = train ? reader.memory : reader.eval_memory) {
    reading.shard = {};
    if (train) reading.shuffle = reader.shuffle;
    return make_memory_format(memory, layout, reading.repeat, reader.on_bad_data);
  }
  const std::string& source = train ? reader.source : reader.eval_source;
  if (reader.format == DataFormat::Norm) {
    return make_norm_format(source, layout, reader.check, reader.on_bad_data,
                            processes ? processes->duplicate("norm index") : nullptr);
  }
  if (train) reading.shuffle = reader.shuffle;
  reading.decode_threads = reader.decode_threads > 0 ? reader.decode_threads : reader.num_workers;
  reading.read_ahead_bytes = reader.read_ahead_bytes;
  if (reader.format == DataFormat::Raw) {
    return make_raw_format(source, layout, train ? reader.raw : reader.eval_raw);
  }
  return make_arrow_format(source, train ? reader.arrow : reader.eval_arrow, reader.columns, layout,
                           reader.on_bad_data);
}

}  // namespace

const std::vector<std::string>& data_format_names() {
  static const std::vector<std::string> names{"Norm", "Raw", "Arrow"};
  return names;
}

std::unique_ptr<IBatchSource> make_source(const ReaderSpec& reader, const InputLayout& layout,
                                          bool repeat, bool train,
                                          const std::shared_ptr<IProcessGroup>& processes) {
  IProcessGroup* const sharing = reader.replicated ? nullptr : processes.get();
  BlockReading reading;
  reading.repeat = repeat;
  reading.on_bad_data = reader.on_bad_data;
  if (sharing) reading.shard = {sharing->rank(), sharing->size()};
  std::unique_ptr<IBatchSource> source;
  together(processes.get(), [&] {
    auto format = make_format(reader, layout, train, sharing, reading);
    source = make_block_source(std::move(format), layout, reading);
  });
  return source;
}

}  // namespace hugectr
