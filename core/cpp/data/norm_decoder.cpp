// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_decoder.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/norm_boundary.hpp"
#include "core/cpp/data/norm_file.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {
namespace {

/// Samples that are decoded at a time: their floats stay in the cache for the screen.
constexpr std::size_t kNormTile = 256;

/// Keys that are copied at once, wanted or not.
constexpr std::size_t kShort = NormDecoder::kKeySlack;
static_assert(kShort * sizeof(std::int64_t) <= NormRange::kSlack);

/// Where the next keys and offsets of one sparse input go.
template <class Key>
struct CsrCursor {
  const NormRecordShape::Slots* slots;
  Key* keys;
  offset_t* rows;  ///< of the current sample; rows[0] is set
  std::size_t nnz;
};

/// Decodes one input's slots from p on; the new p, or nullptr when they are damaged.
template <class Key>
const std::uint8_t* decode_slots(const std::uint8_t* p, const std::uint8_t* end,
                                 CsrCursor<Key>& csr) {
  constexpr std::size_t kStride = 4 + sizeof(Key);
  const NormRecordShape::Slots& slots = *csr.slots;
  const std::size_t count = slots.count;
  const auto left = static_cast<std::size_t>(end - p);
  const auto first = static_cast<offset_t>(csr.nnz);
  if (slots.one_hot_allowed && left >= count * kStride && is_one_hot(p, count, sizeof(Key))) {
    Key* __restrict keys = csr.keys + csr.nnz;
    offset_t* __restrict rows = csr.rows + 1;
    for (std::size_t s = 0; s < count; ++s) keys[s] = load<Key>(p + s * kStride + 4);
    for (std::size_t s = 0; s < count; ++s) rows[s] = first + static_cast<offset_t>(s) + 1;
    csr.nnz += count;
    return p + count * kStride;
  }
  for (std::size_t s = 0; s < count; ++s) {
    if (end - p < 4) return nullptr;
    const auto nnz = load<std::int32_t>(p);
    p += 4;
    if (nnz < 0 || csr.nnz - first + static_cast<std::size_t>(nnz) > slots.most) return nullptr;
    if (!slots.each.empty() && nnz > slots.each[s]) return nullptr;
    const std::size_t bytes = static_cast<std::size_t>(nnz) * sizeof(Key);
    if (static_cast<std::size_t>(end - p) < bytes) return nullptr;
    // A few keys always, in one move of known size: slots are short. There is room for it.
    std::memcpy(csr.keys + csr.nnz, p, kShort * sizeof(Key));
    if (nnz > static_cast<std::int32_t>(kShort)) std::memcpy(csr.keys + csr.nnz, p, bytes);
    p += bytes;
    csr.nnz += static_cast<std::size_t>(nnz);
    csr.rows[s + 1] = static_cast<offset_t>(csr.nnz);
  }
  return p;
}

}  // namespace

std::size_t NormDecoder::decode_rows(const NormRange& range, std::size_t first, std::size_t count,
                                     std::size_t at, CSRChunk& chunk) const {
  std::size_t skipped = 0;
  for (std::size_t done = 0; done < count; done += kNormTile) {
    const std::size_t n = std::min(kNormTile, count - done), record = first + done,
                      sample = at + done;
    skipped += layout_.i64_keys ? decode_keyed<std::int64_t>(range, record, n, sample, chunk)
                                : decode_keyed<std::uint32_t>(range, record, n, sample, chunk);
    skipped += screen_samples(layout_, on_bad_data_, sample, n, chunk,
                              [&](std::size_t i, const BadValue& value) {
                                const std::size_t bad = record + (i - sample);
                                refuse(range, explain(range, bad, value), chunk);
                              });
  }
  return skipped;
}

template <class Key>
std::size_t NormDecoder::decode_keyed(const NormRange& range, std::size_t first, std::size_t count,
                                      std::size_t at, CSRChunk& chunk) const {
  std::size_t skipped = 0;
  std::vector<CsrCursor<Key>> cursors;
  for (std::size_t i = 0; i < chunk.sparse.size(); ++i) {
    HostCsr& csr = chunk.sparse[i];
    auto* rows = csr.row_offsets.as<offset_t>() + at * shape_.inputs[i].count;
    cursors.push_back({&shape_.inputs[i], csr.keys.as<Key>(), rows, csr.nnz});
  }
  const std::size_t label_dim = layout_.label_dim, dense_dim = layout_.dense_dim;
  float* label = chunk.label.as<float>() + at * label_dim;
  float* dense = chunk.dense.as<float>() + at * dense_dim;
  float* weight = chunk.weight.as<float>() + at;
  std::vector<std::size_t> nnz_before(cursors.size());
  const std::uint8_t* const bytes = range.bytes.as<std::uint8_t>();
  for (std::size_t row = first; row < first + count; ++row) {
    const std::uint8_t* p = bytes + range.begins[row] + (shape_.framed ? 4 : 0);
    const std::uint8_t* const end = bytes + range.begins[row + 1] - (shape_.framed ? 1 : 0);
    bool good = !shape_.framed || byte_sum(p, static_cast<std::size_t>(end - p)) == *end;
    if (good) {
      std::memcpy(label, p, label_dim * sizeof(float));
      std::memcpy(dense, p + label_dim * sizeof(float), dense_dim * sizeof(float));
      p += shape_.float_bytes;
      for (std::size_t i = 0; i < cursors.size(); ++i) nnz_before[i] = cursors[i].nnz;
      for (std::size_t i = 0; p && i < cursors.size(); ++i) p = decode_slots(p, end, cursors[i]);
      good = p == end;
      if (!good) {
        for (std::size_t i = 0; i < cursors.size(); ++i) cursors[i].nnz = nnz_before[i];
      }
    }
    if (!good) {
      refuse(range, explain(range, row), chunk);
      ++skipped;
      std::fill_n(label, label_dim, 0.0f);
      std::fill_n(dense, dense_dim, 0.0f);
      for (CsrCursor<Key>& csr : cursors) {
        std::fill_n(csr.rows + 1, csr.slots->count, static_cast<offset_t>(csr.nnz));
      }
    }
    *weight++ = good ? 1.0f : 0.0f;
    label += label_dim;
    dense += dense_dim;
    for (CsrCursor<Key>& csr : cursors) csr.rows += csr.slots->count;
  }
  for (std::size_t i = 0; i < cursors.size(); ++i) chunk.sparse[i].nnz = cursors[i].nnz;
  return skipped;
}

void NormDecoder::refuse(const NormRange& range, const std::string& message,
                         CSRChunk& chunk) const {
  if (on_bad_data_ == OnBadData::Error) throw DataError(message + kNormWayOut);
  if (chunk.first_damage.empty()) chunk.first_damage = message;
  damage_.add(*range.path, message, 1);
}

std::string NormDecoder::explain(const NormRange& range, std::size_t row,
                                 const BadValue& value) const {
  std::uint64_t offset = range.byte + range.begins[row] + (shape_.framed ? 4 : 0);
  if (value.part != BadValue::Part::Key) {
    offset += 4 * (value.part == BadValue::Part::Label ? 0 : layout_.label_dim);
    offset += 4 * value.index;
  }
  return norm_message(*range.path, offset, value.text(layout_));
}

std::string NormDecoder::explain(const NormRange& range, std::size_t row) const {
  const std::uint64_t offset = range.byte + range.begins[row];
  const std::uint64_t payload = offset + (shape_.framed ? 4 : 0);
  const std::uint8_t* p =
      range.bytes.as<std::uint8_t>() + range.begins[row] + (shape_.framed ? 4 : 0);
  const std::size_t size = range.begins[row + 1] - range.begins[row] - shape_.frame_bytes();
  if (shape_.framed && byte_sum(p, size) != p[size]) {
    return norm_message(*range.path, offset,
                        concat("checksum of the record is ", int(byte_sum(p, size)),
                               ", the file says ", int(p[size])));
  }
  const NormRecordShape other(layout_, shape_.framed, layout_.i64_keys ? 4 : 8);
  const NormWalk other_walk = walk_payload(other, p, size, false);
  const bool other_fits = other_walk.end == NormWalk::End::Complete && other_walk.bytes == size;
  const std::string hint = other_fits ? other_key_width_hint(layout_.i64_keys) : std::string();
  const NormWalk walk = walk_payload(shape_, p, size, true);
  if (walk.end == NormWalk::End::BadNnz) {
    return norm_message(*range.path, payload + walk.bytes, walk.what + hint);
  }
  return norm_message(
      *range.path, offset,
      concat("length of the record is ", size, ", its content takes ",
             walk.end == NormWalk::End::Complete ? "" : "more than ", walk.bytes, hint));
}

}  // namespace hugectr
