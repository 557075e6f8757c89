// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/arrow_block.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace hugectr {
namespace {

/// Rows that are turned at a time: their keys and floats stay in the second cache level.
constexpr std::size_t kArrowTile = 512;

bool is_integer(ArrowType type) {
  return type != ArrowType::Float && type != ArrowType::Double && type != ArrowType::Bool;
}

/// Keys that a slot may have once its offset is added.
struct KeyRange {
  std::int64_t low, high;
};

/// Those of the key type. Where slots count from 0 they are no lower than the offset: a negative
/// key would meet a key of the slot before.
KeyRange keys_allowed(std::int64_t offset, bool from_zero, bool i64_keys) {
  using Wide = std::numeric_limits<std::int64_t>;
  return {from_zero  ? offset
          : i64_keys ? Wide::min()
                     : 0,
          i64_keys ? Wide::max() : std::numeric_limits<std::uint32_t>::max()};
}

/// Whether a key, with its slot's offset, is one of those that are allowed.
template <class T>
bool fits(T value, std::int64_t offset, KeyRange allowed) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
  }
  if constexpr (std::is_integral_v<T>) {
    std::int64_t key = 0;
    if (__builtin_add_overflow(static_cast<std::int64_t>(value), offset, &key)) return false;
    return key >= allowed.low && key <= allowed.high;
  }
  return false;
}

}  // namespace

ArrowBlock::ArrowBlock(std::unique_ptr<ArrowBatch> batch, const ArrowMapping& mapping,
                       const InputLayout& layout, std::size_t rows, OnBadData on_bad_data,
                       std::string file, std::size_t block, DamageLog& damage)
    : batch_(std::move(batch)),
      layout_(layout),
      on_bad_data_(on_bad_data),
      file_(std::move(file)),
      where_(concat("'", file_, "', block ", block)),
      damage_(damage) {
  const ArrowArray& array = batch_->array;
  const ArrowSchema& schema = batch_->schema;
  if (!schema.format || std::string(schema.format) != "+s" || schema.n_children < 0 ||
      schema.n_children != array.n_children || array.offset != 0 || array.null_count > 0 ||
      static_cast<std::uint64_t>(std::max<std::int64_t>(array.length, 0)) != rows) {
    throw DataError(concat(where_, " holds ", array.length, " rows, its description says ", rows,
                           ": the data was changed, or is damaged"));
  }
  for (const std::string& name : mapping.labels) labels_.push_back(column(name));
  for (const std::string& name : mapping.dense) dense_.push_back(column(name));
  for (const auto* columns : {&labels_, &dense_}) {
    for (const ArrowColumn& c : *columns) {
      if (c.is_list()) {
        throw DataError(concat(where_, ", column '", c.name(),
                               "' holds lists; labels and dense features are one number a row"));
      }
    }
  }
  std::size_t next = 0;
  for (const SparseInput& input : layout_.sparse) {
    std::vector<Slot> slots;
    for (const int nnz : input.nnz_per_slot) {
      const std::int64_t offset = mapping.slot_offsets.empty() ? 0 : mapping.slot_offsets[next];
      ArrowColumn c = column(mapping.slots[next++]);
      if (!is_integer(c.type())) {
        throw DataError(concat(where_, ", column '", c.name(),
                               "' does not hold integers; keys must be (encode categories first)"));
      }
      const bool keeps_last =
          std::ranges::find(mapping.sequences, c.name()) != mapping.sequences.end();
      slots.push_back({std::move(c), offset, !mapping.slot_offsets.empty(),
                       static_cast<std::size_t>(nnz), keeps_last});
    }
    inputs_.push_back(std::move(slots));
  }
}

ArrowColumn ArrowBlock::column(const std::string& name) const {
  std::string known;
  std::int64_t found = -1;
  for (std::int64_t c = 0; c < batch_->schema.n_children; ++c) {
    const ArrowSchema* schema = batch_->schema.children[c];
    if (schema->name && name == schema->name) {
      if (found >= 0) {
        throw DataError(concat(where_, " has several columns '", name, "': rename all but one"));
      }
      found = c;
    }
    if (c < 8) known += concat(known.empty() ? "'" : ", '", schema->name ? schema->name : "", "'");
  }
  if (found >= 0) {
    return {*batch_->schema.children[found], *batch_->array.children[found],
            static_cast<std::size_t>(batch_->array.length), where_};
  }
  throw DataError(concat(where_, " has no column '", name, "'; it has: ", known,
                         batch_->schema.n_children > 8 ? ", ..." : ""));
}

std::size_t ArrowBlock::key_count(std::size_t input, std::size_t first, std::size_t count) const {
  std::size_t keys = 0;
  for (const Slot& slot : inputs_[input]) {
    keys += slot.column.begin(first + count) - slot.column.begin(first);
  }
  return keys;
}

std::vector<std::uint8_t> ArrowBlock::bad_rows(std::size_t first, std::size_t count) const {
  std::vector<std::uint8_t> bad(count, 0);
  const auto find_nulls = [&](const ArrowColumn& c) {
    if (!c.has_nulls()) return;
    for (std::size_t i = 0; i < count; ++i) bad[i] |= c.is_null(first + i) ? 1 : 0;
  };
  for (const ArrowColumn& c : labels_) find_nulls(c);
  for (const ArrowColumn& c : dense_) find_nulls(c);
  for (const auto& slots : inputs_) {
    for (const Slot& slot : slots) {
      find_nulls(slot.column);
      find_bad_keys(slot, first, bad);
    }
  }
  if (std::find(bad.begin(), bad.end(), 1) == bad.end()) bad.clear();
  return bad;
}

void ArrowBlock::find_bad_keys(const Slot& slot, std::size_t first,
                               std::vector<std::uint8_t>& bad) const {
  const std::size_t count = bad.size();
  const std::int64_t offset = slot.offset;
  const KeyRange allowed = keys_allowed(offset, slot.from_zero, layout_.i64_keys);
  with_arrow_values(slot.column, [&](const auto& get) {
    if (!slot.column.is_list() && slot.most >= 1) {
      std::uint8_t any = 0;
      for (std::size_t i = 0; i < count; ++i) any |= fits(get(first + i), offset, allowed) ? 0 : 1;
      if (any == 0) return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = slot.begin(first + i), end = slot.end(first + i);
      const std::size_t nnz = end - begin;
      bool ok = nnz <= slot.most;
      for (std::size_t k = begin; ok && k < end; ++k) ok = fits(get(k), offset, allowed);
      if (!ok) bad[i] = 1;
    }
  });
}

std::string ArrowBlock::explain(std::size_t row) const {
  for (const auto* columns : {&labels_, &dense_}) {
    for (const ArrowColumn& c : *columns) {
      if (c.is_null(row)) return concat("column '", c.name(), "' is null");
    }
  }
  for (const auto& slots : inputs_) {
    for (const Slot& slot : slots) {
      const std::string column = concat("column '", slot.column.name(), "'");
      if (slot.column.is_null(row)) return column + " is null";
      const std::size_t nnz = slot.keys(row);
      if (nnz > slot.most) {
        return concat(column, " has ", nnz, " keys, allowed are at most ", slot.most,
                      " (nnz_per_slot)");
      }
      std::vector<std::uint8_t> bad(1, 0);
      find_bad_keys(slot, row, bad);
      if (bad[0] != 0) return column + explain_key(slot, row);
    }
  }
  return "the row is damaged";
}

std::string ArrowBlock::explain_key(const Slot& slot, std::size_t row) const {
  const KeyRange allowed = keys_allowed(slot.offset, slot.from_zero, layout_.i64_keys);
  std::string text;
  with_arrow_values(slot.column, [&](const auto& get) {
    std::size_t k = slot.begin(row);
    while (k + 1 < slot.end(row) && fits(get(k), slot.offset, allowed)) ++k;
    const auto key = +get(k);  // no character
    bool negative = false;
    if constexpr (std::is_signed_v<decltype(+get(k))>) negative = key < 0;
    if (slot.from_zero && negative) {
      text = concat(" has key ", key,
                    ": with slot_size_array the keys of a slot count from 0 (a row without a "
                    "category has a list without keys)");
      return;
    }
    text = concat(" has key ", key, ", which is no ",
                  layout_.i64_keys ? "int64" : "uint32 (set i64_input_key for others)",
                  slot.offset != 0 ? " once the slot's offset is added" : "");
  });
  return text;
}

std::string ArrowBlock::explain(const BadValue& value) const {
  const ArrowColumn& column = value.part == BadValue::Part::Label ? labels_[value.index]
                              : value.part == BadValue::Part::Dense
                                  ? dense_[value.index]
                                  : inputs_[value.index][value.slot].column;
  const char* is = value.part == BadValue::Part::Key ? "' has the key " : "' is ";
  return concat("column '", column.name(), is, value.found, value.allowed);
}

void ArrowBlock::refuse(std::size_t row, const std::string& what, CSRChunk& chunk) const {
  const std::string message = concat(where_, ", row ", row, ", ", what);
  if (on_bad_data_ == OnBadData::Error) {
    throw DataError(message + "; clean the data, or read with on_bad_data=\"skip\"");
  }
  if (!chunk.first_damage.empty()) return;
  chunk.first_damage = message;
  damage_.add(file_, message, 0);
}

void ArrowBlock::copy_floats(const std::vector<ArrowColumn>& columns, std::size_t first,
                             std::size_t count, const std::vector<std::uint8_t>& bad,
                             float* to) const {
  const std::size_t width = columns.size();
  for (std::size_t c = 0; c < width; ++c) {
    with_arrow_values(columns[c], [&](const auto& get) {
      for (std::size_t i = 0; i < count; ++i) {
        to[i * width + c] = static_cast<float>(get(first + i));
      }
    });
  }
  for (std::size_t i = 0; i < bad.size(); ++i) {
    if (bad[i] != 0) std::fill_n(to + i * width, width, 0.0f);
  }
}

template <class Key>
void ArrowBlock::copy_single_keys(std::size_t input, std::size_t first, std::size_t count,
                                  std::size_t at, HostCsr& csr) const {
  const std::vector<Slot>& slots = inputs_[input];
  const std::size_t width = slots.size();
  Key* to = csr.keys.as<Key>() + csr.nnz;
  for (std::size_t s = 0; s < width; ++s) {
    with_arrow_values(slots[s].column, [&](const auto& get) {
      const std::int64_t offset = slots[s].offset;
      for (std::size_t i = 0; i < count; ++i) {
        to[i * width + s] = static_cast<Key>(static_cast<std::int64_t>(get(first + i)) + offset);
      }
    });
  }
  offset_t* rows = csr.row_offsets.as<offset_t>() + at * width;
  for (std::size_t i = 0; i <= count * width; ++i) rows[i] = static_cast<offset_t>(csr.nnz + i);
  csr.nnz += count * width;
}

template <class Key>
void ArrowBlock::copy_listed_keys(std::size_t input, std::size_t first, std::size_t count,
                                  std::size_t at, const std::vector<std::uint8_t>& bad,
                                  HostCsr& csr) const {
  const std::vector<Slot>& slots = inputs_[input];
  const std::size_t width = slots.size();
  offset_t* rows = csr.row_offsets.as<offset_t>() + at * width;
  std::size_t next = csr.nnz;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < width; ++s) {
      *rows++ = static_cast<offset_t>(next);
      if (!bad.empty() && bad[i] != 0) continue;
      next += slots[s].keys(first + i);
    }
  }
  *rows = static_cast<offset_t>(next);
  rows = csr.row_offsets.as<offset_t>() + at * width;
  for (std::size_t s = 0; s < width; ++s) {
    const std::int64_t offset = slots[s].offset;
    with_arrow_values(slots[s].column, [&](const auto& get) {
      for (std::size_t i = 0; i < count; ++i) {
        Key* to = csr.keys.as<Key>() + rows[i * width + s];
        const std::size_t nnz = rows[i * width + s + 1] - rows[i * width + s];
        const std::size_t begin = slots[s].begin(first + i);
        for (std::size_t k = 0; k < nnz; ++k) {
          to[k] = static_cast<Key>(static_cast<std::int64_t>(get(begin + k)) + offset);
        }
      }
    });
  }
  csr.nnz = next;
}

std::size_t ArrowBlock::copy_rows(std::size_t first, std::size_t count, std::size_t at,
                                  CSRChunk& chunk) const {
  std::size_t skipped = 0;
  for (std::size_t done = 0; done < count; done += kArrowTile) {
    const std::size_t n = std::min(kArrowTile, count - done), row = first + done,
                      sample = at + done;
    const std::vector<std::uint8_t> bad = bad_rows(row, n);
    if (!bad.empty()) {
      const std::size_t worst =
          row + static_cast<std::size_t>(std::find(bad.begin(), bad.end(), 1) - bad.begin());
      refuse(worst, explain(worst), chunk);
    }
    copy_floats(labels_, row, n, bad, chunk.label.as<float>() + sample * labels_.size());
    copy_floats(dense_, row, n, bad, chunk.dense.as<float>() + sample * dense_.size());
    float* weight = chunk.weight.as<float>() + sample;
    for (std::size_t i = 0; i < n; ++i) weight[i] = bad.empty() || bad[i] == 0 ? 1.0f : 0.0f;
    skipped += static_cast<std::size_t>(std::count(bad.begin(), bad.end(), 1));
    for (std::size_t s = 0; s < inputs_.size(); ++s) {
      const auto& slots = inputs_[s];
      const bool lists = std::any_of(slots.begin(), slots.end(),
                                     [](const Slot& slot) { return slot.column.is_list(); });
      HostCsr& csr = chunk.sparse[s];
      if (!lists && bad.empty()) {
        layout_.i64_keys ? copy_single_keys<std::int64_t>(s, row, n, sample, csr)
                         : copy_single_keys<std::uint32_t>(s, row, n, sample, csr);
      } else {
        layout_.i64_keys ? copy_listed_keys<std::int64_t>(s, row, n, sample, bad, csr)
                         : copy_listed_keys<std::uint32_t>(s, row, n, sample, bad, csr);
      }
    }
    skipped += screen_samples(layout_, on_bad_data_, sample, n, chunk,
                              [&](std::size_t i, const BadValue& value) {
                                refuse(row + (i - sample), explain(value), chunk);
                              });
  }
  return skipped;
}

}  // namespace hugectr
