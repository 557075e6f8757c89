// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/make_source.hpp"

#include <utility>

#include "core/cpp/data/norm_ranges.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

/// `processes`: null, or those that share the decoding.
std::unique_ptr<IBatchSource> make_one_source(const ReaderSpec& reader, const InputLayout& layout,
                                              bool repeat, bool train,
                                              const std::shared_ptr<IProcessGroup>& processes) {
  BlockReading reading;
  reading.repeat = repeat;
  reading.on_bad_data = reader.on_bad_data;
  const auto& memory = train ? reader.memory : reader.eval_memory;
  if (memory) {
    return make_block_source(make_memory_format(memory, layout, repeat, reader.on_bad_data), layout,
                             reading);
  }
  const std::string& source = train ? reader.source : reader.eval_source;
  if (reader.format == DataFormat::Norm && !processes) {
    return make_norm_source(source, layout, reader.check, repeat, reader.on_bad_data);
  }
  if (processes) reading.shard = {processes->rank(), processes->size()};
  if (reader.format == DataFormat::Norm) {
    return make_block_source(make_norm_ranges(source, layout, reader.check, reader.on_bad_data,
                                              processes->duplicate("norm index")),
                             layout, reading);
  }
  if (train) reading.shuffle = reader.shuffle;
  reading.decode_threads = reader.decode_threads > 0 ? reader.decode_threads : reader.num_workers;
  reading.read_ahead_bytes = reader.read_ahead_bytes;
  auto format = reader.format == DataFormat::Raw
                    ? make_raw_format(source, layout, train ? reader.raw : reader.eval_raw)
                    : make_arrow_format(source, train ? reader.arrow : reader.eval_arrow,
                                        reader.columns, layout, reader.on_bad_data);
  return make_block_source(std::move(format), layout, reading);
}

}  // namespace

const std::vector<std::string>& data_format_names() {
  static const std::vector<std::string> names{"Norm", "Raw", "Arrow"};
  return names;
}

std::unique_ptr<IBatchSource> make_source(const ReaderSpec& reader, const InputLayout& layout,
                                          bool repeat, bool train,
                                          const std::shared_ptr<IProcessGroup>& processes) {
  const auto sharing = reader.replicated ? nullptr : processes;
  std::unique_ptr<IBatchSource> source;
  together(processes.get(),
           [&] { source = make_one_source(reader, layout, repeat, train, sharing); });
  return source;
}

}  // namespace hugectr
