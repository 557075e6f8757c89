// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/saved_model.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/half.hpp"
#include "core/cpp/checkpoints/described_model.hpp"
#include "core/cpp/checkpoints/links.hpp"
#include "core/cpp/embedding/storage/linked_segments.hpp"

namespace hugectr {
namespace {

/// Where a checkpoint does not say what the model was evaluated with.
constexpr std::size_t kBatch = 2048;

/// All of a file of floating-point numbers.
template <class To>
std::vector<To> numbers(const Manifest& manifest, const std::string& name) {
  const SavedFile& file = manifest.files.at(name);
  SavedBytes bytes(manifest, name);
  std::vector<To> found;
  found.reserve(static_cast<std::size_t>(file.shape[0]));
  const auto take = [&]<class From>(From) {
    std::vector<char> rest;  // of a number that a chunk ends in
    for (std::size_t i = 0; i < bytes.chunks(); ++i) {
      const auto* const begin = static_cast<const char*>(bytes.chunk(i));
      rest.insert(rest.end(), begin, begin + bytes.chunk_size(i));
      const std::size_t count = rest.size() / sizeof(From), old = found.size();
      found.resize(old + count);
      for (std::size_t k = 0; k < count; ++k) {
        From value;
        std::memcpy(&value, rest.data() + k * sizeof(From), sizeof(From));
        found[old + k] = static_cast<To>(value);
      }
      rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count * sizeof(From)));
    }
  };
  file.dtype == "float64" ? take(double{}) : take(float{});
  return found;
}

[[noreturn]] void refuse(const Manifest& manifest, const std::string& why) {
  throw InvalidArgument(concat(manifest.path, " has other weights than the model: ", why,
                               "; build a model with the same layers and tables"));
}

void check_same_model(Session& session, const Manifest& manifest) {
  if (session.num_tables() != manifest.tables.size()) {
    refuse(manifest, concat(manifest.tables.size(), " tables, the model ", session.num_tables()));
  }
  for (const SavedTable& saved : manifest.tables) {
    const SessionTable& own = session.table(saved.index);
    if (own.name() != saved.name || own.vec_size() != saved.vec_size ||
        own.has_slots() != saved.has_slots) {
      refuse(manifest, concat("table '", saved.name, "' of ", saved.vec_size, ", the model's '",
                              own.name(), "' of ", own.vec_size()));
    }
  }
  if (!manifest.dense_tensors) return;
  const auto names = session.network().weight_names();
  for (std::size_t i = 0; i < std::max(names.size(), manifest.dense_tensors->size()); ++i) {
    const auto& saved = *manifest.dense_tensors;
    const std::string a = i < saved.size() ? saved[i].first : "none";
    const std::string b = i < names.size() ? names[i] : "none";
    if (a != b) refuse(manifest, concat("dense tensor '", a, "', the model '", b, "'"));
  }
}

void load_rows(SessionTable& table, const Manifest& manifest, const SavedTable& saved) {
  for (std::size_t shard = 0; shard < saved.shard_rows.size(); ++shard) {
    const auto file = [&](const char* part) { return saved.file(part, shard, manifest.format); };
    SavedBytes keys(manifest, file("key")), vectors(manifest, file("vector"));
    std::unique_ptr<SavedBytes> slots;
    if (saved.has_slots) slots = std::make_unique<SavedBytes>(manifest, file("slot"));
    std::vector<float> wide;  // of a chunk in bfloat16
    for (std::size_t chunk = 0; chunk < keys.chunks(); ++chunk) {
      RowView rows;
      rows.size = static_cast<std::size_t>(keys.chunk_size(chunk) / sizeof(std::int64_t));
      rows.vec_size = saved.vec_size;
      rows.keys = static_cast<const std::int64_t*>(keys.chunk(chunk));
      if (saved.in_bfloat16) {
        wide.resize(rows.size * rows.vec_size);
        const auto* const stored = static_cast<const BFloat16*>(vectors.chunk(chunk));
        std::transform(stored, stored + wide.size(), wide.begin(),
                       [](BFloat16 value) { return to_float(value); });
        rows.vectors = wide.data();
      } else {
        rows.vectors = static_cast<const float*>(vectors.chunk(chunk));
      }
      if (slots) rows.slot_ids = static_cast<const std::uint64_t*>(slots->chunk(chunk));
      table.load(rows);
    }
  }
}

/// Rows in segments that the checkpoint has linked.
void load_linked_rows(SessionTable& table, const Manifest& manifest, const SavedTable& saved) {
  for (const SavedLink& link : saved.links) {
    std::vector<LinkedSegment> files;
    for (std::size_t i = 0; i < link.heads.size(); ++i) {
      const std::string name = saved.segment(i, link);
      const std::string path = (std::filesystem::path(manifest.path) / name).string();
      files.push_back({path, manifest.files.at(name).bytes, link.heads[i]});
    }
    const LinkedSegments segments(saved.link_bytes, std::move(files));
    SavedBytes keys(manifest, saved.file(std::string("key"), link));
    SavedBytes places(manifest, saved.file(std::string("place"), link));
    std::unique_ptr<SavedBytes> slots;
    if (saved.has_slots) {
      slots = std::make_unique<SavedBytes>(manifest, saved.file(std::string("slot"), link));
    }
    std::vector<std::byte> records;
    std::vector<float> vectors;
    for (std::size_t chunk = 0; chunk < keys.chunks(); ++chunk) {
      RowView rows;
      rows.size = static_cast<std::size_t>(keys.chunk_size(chunk) / sizeof(std::int64_t));
      rows.vec_size = saved.vec_size;
      rows.keys = static_cast<const std::int64_t*>(keys.chunk(chunk));
      if (slots) rows.slot_ids = static_cast<const std::uint64_t*>(slots->chunk(chunk));
      records.resize(rows.size * saved.link_bytes);
      vectors.resize(rows.size * saved.vec_size);
      segments.read({static_cast<const std::uint64_t*>(places.chunk(chunk)), rows.size},
                    records.data());
      for (std::size_t i = 0; i < rows.size; ++i) {
        const std::byte* const record = records.data() + i * saved.link_bytes;
        float* const to = vectors.data() + i * saved.vec_size;
        if (!saved.in_bfloat16) {
          std::memcpy(to, record, saved.vec_size * sizeof(float));
          continue;
        }
        for (std::size_t c = 0; c < saved.vec_size; ++c) {
          BFloat16 value;
          std::memcpy(&value, record + c * sizeof(value), sizeof(value));
          to[c] = to_float(value);
        }
      }
      rows.vectors = vectors.data();
      table.load(rows);
    }
  }
}

/// Rows that a delta takes away.
void erase_rows(SessionTable& table, const Manifest& manifest, const SavedTable& gone) {
  for (std::size_t shard = 0; shard < gone.shard_rows.size(); ++shard) {
    const auto file = [&](const char* part) { return gone.file(part, shard, manifest.format); };
    SavedBytes keys(manifest, file("key"));
    std::unique_ptr<SavedBytes> slots;
    if (gone.has_slots) slots = std::make_unique<SavedBytes>(manifest, file("slot"));
    for (std::size_t chunk = 0; chunk < keys.chunks(); ++chunk) {
      const std::size_t n = static_cast<std::size_t>(keys.chunk_size(chunk)) / sizeof(std::int64_t);
      const auto* const first = static_cast<const std::int64_t*>(keys.chunk(chunk));
      std::vector<std::uint64_t> slot_ids;
      if (slots) {
        const auto* const of_keys = static_cast<const std::uint64_t*>(slots->chunk(chunk));
        slot_ids.assign(of_keys, of_keys + n);
      }
      table.erase({first, first + n}, slot_ids);
    }
  }
}

void load_network(SessionNetwork& network, const Manifest& manifest) {
  network.set_dense_weights(numbers<float>(manifest, "dense.weights"));
  const auto own = network.non_trainables();
  if (own.size() != manifest.statistics.size()) {
    throw InvalidArgument(concat("running statistics of ", manifest.statistics.size(),
                                 " layers, the model has ", own.size()));
  }
  std::vector<NonTrainableValues> all;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string name = concat("statistics", i);
    all.push_back({manifest.statistics[i].value_or(own[i].layer),
                   numbers<double>(manifest, name + ".mean"),
                   numbers<float>(manifest, name + ".var")});
  }
  if (!all.empty()) network.set_non_trainables(all);
}

void load_links(Session& session, const std::vector<Manifest>& links) {
  const Manifest& last = links.back();
  check_same_model(session, last);
  try {
    for (std::size_t i = 0; i < session.num_tables(); ++i) {
      SessionTable& table = session.table(i);
      table.reset();
      for (const Manifest& link : links) {
        if (!link.gone.empty()) erase_rows(table, link, link.gone[i]);
        load_rows(table, link, link.tables[i]);
        load_linked_rows(table, link, link.tables[i]);
      }
    }
    load_network(session.network(), last);
    session.set_step(last.step);
  } catch (const InvalidArgument& error) {
    throw DataError(concat(last.path, " does not fit the model: ", error.what()));
  }
}

/// What the description is of, with errors that name the checkpoint.
template <class Build>
auto built_of(const Manifest& manifest, const Build& build) {
  try {
    return build();
  } catch (const DataError& error) {
    throw DataError(concat(manifest.path, " is of a model that this version can not build (",
                           error.what(), "): load it with the version that saved it"));
  }
}

DescribedModel described(const Manifest& manifest, DeviceType device, std::size_t batch_size) {
  if (manifest.description.is_null()) {
    throw InvalidArgument(concat(
        "load: ", manifest.path,
        " does not describe its model (it was written by an earlier "
        "version, or comes from the original layout): build a Session of the model and give it the "
        "weights with load_weights()"));
  }
  const std::size_t of_model = manifest.batchsize_eval > 0 ? manifest.batchsize_eval : kBatch;
  return described_model(manifest.description, device, batch_size > 0 ? batch_size : of_model);
}

}  // namespace

SavedModel::SavedModel(const std::string& path, DeviceType device, std::size_t batch_size) {
  const std::vector<Manifest> links = links_of(checkpoint_at(path));
  session_ = built_of(links.back(), [&] {
    DescribedModel found = described(links.back(), device, batch_size);
    auto session = std::make_unique<Session>(found.solver, std::nullopt, found.model);
    input_ = std::move(found.model.input);
    return session;
  });
  load_links(*session_, links);
}

SavedModel::~SavedModel() = default;

SavedDescription read_description(const std::string& path) {
  const std::vector<Manifest> links = links_of(checkpoint_at(path));
  const Manifest& last = links.back();
  SavedDescription found{.path = last.path,
                         .step = last.step,
                         .batchsize_eval = last.batchsize_eval,
                         .model = "",
                         .schema = sorted_json_text(last.schema, ""),
                         .table_rows = std::vector<std::size_t>(last.tables.size())};
  if (!last.description.is_null()) {
    built_of(last, [&] { return described_model(last.description, DeviceType::Cpu, 1); });
    found.model = sorted_json_text(last.description, "");
  }
  for (const Manifest& link : links) {
    for (std::size_t table = 0; table < link.tables.size(); ++table) {
      for (const std::uint64_t rows : link.tables[table].shard_rows)
        found.table_rows[table] += rows;
      for (const SavedLink& linked : link.tables[table].links)
        found.table_rows[table] += linked.rows;
    }
  }
  return found;
}

void load_weights(Session& session, const std::string& path) {
  load_links(session, links_of(checkpoint_at(path)));
}

}  // namespace hugectr
