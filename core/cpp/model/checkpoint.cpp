// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/checkpoint.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

namespace fs = std::filesystem;

class Writer {
 public:
  explicit Writer(const std::string& file) : file_(file), stream_(file, std::ios::binary) {
    if (!stream_) throw DataError(concat("can not write '", file, "': ", std::strerror(errno)));
  }
  template <class T>
  void write(const std::vector<T>& values) {
    stream_.write(reinterpret_cast<const char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  /// Closes; only now a full disk is known.
  void close() {
    stream_.close();
    if (!stream_) {
      throw DataError(concat("writing '", file_, "' failed: ", std::strerror(errno),
                             "; the file is incomplete"));
    }
  }

 private:
  std::string file_;
  std::ofstream stream_;
};

std::size_t size_of_file(const std::string& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) throw DataError(concat("can not read '", file, "': ", error.message()));
  return size;
}

void read_exactly(const std::string& file, void* data, std::size_t bytes) {
  std::ifstream stream(file, std::ios::binary);
  stream.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  if (!stream) throw DataError(concat("can not read ", bytes, " bytes of '", file, "'"));
}

template <class T>
std::size_t values_in_file(const std::string& file) {
  const std::size_t bytes = size_of_file(file);
  if (bytes % sizeof(T) != 0) {
    throw DataError(concat("'", file, "' has ", bytes, " bytes, not a multiple of ", sizeof(T)));
  }
  return bytes / sizeof(T);
}

template <class T>
std::vector<T> read_all(const std::string& file) {
  std::vector<T> values(values_in_file<T>(file));
  read_exactly(file, values.data(), values.size() * sizeof(T));
  return values;
}

std::string in_folder(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

}  // namespace

void write_floats(const std::string& file, const std::vector<float>& values) {
  Writer writer(file);
  writer.write(values);
  writer.close();
}

std::vector<float> read_floats(const std::string& file, std::size_t count,
                               const std::string& what) {
  const std::size_t bytes = size_of_file(file);
  if (bytes != count * sizeof(float)) {
    throw DataError(concat("'", file, "' has ", bytes, " bytes, but the ", what,
                           " of this model take ", count * sizeof(float), " (", count,
                           " float32); it was written by another model"));
  }
  std::vector<float> values(count);
  read_exactly(file, values.data(), bytes);
  return values;
}

void write_sparse_folder(const std::string& folder, const BufferBag& rows) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(concat("can not make folder '", folder, "': ", error.message()));
  Writer keys(in_folder(folder, "key"));
  keys.write(rows.keys);
  keys.close();
  if (!rows.slot_ids.empty()) {
    Writer slots(in_folder(folder, "slot_id"));
    slots.write(rows.slot_ids);
    slots.close();
  }
  Writer vectors(in_folder(folder, "emb_vector"));
  vectors.write(rows.vectors);
  vectors.close();
}

BufferBag read_sparse_folder(const std::string& folder, std::size_t vec_size, bool with_slots) {
  if (!fs::is_directory(folder)) {
    throw DataError(concat("'", folder, "' is not a folder with the files key and emb_vector"));
  }
  // Sizes first: one wrong file must not take memory for what does not fit the others.
  const std::size_t n = values_in_file<std::int64_t>(in_folder(folder, "key"));
  const std::size_t floats = values_in_file<float>(in_folder(folder, "emb_vector"));
  if (floats / vec_size != n || floats % vec_size != 0) {
    throw DataError(concat("'", folder, "': key has ", n, " rows, so emb_vector must hold ", n,
                           " x ", vec_size, " float32, but holds ", floats,
                           "; was it written with another embedding_vec_size?"));
  }
  if (with_slots) {
    const std::size_t slots = values_in_file<std::uint64_t>(in_folder(folder, "slot_id"));
    if (slots != n) {
      throw DataError(concat("'", folder, "': key has ", n, " rows, slot_id has ", slots));
    }
  }
  BufferBag rows;
  rows.vec_size = vec_size;
  rows.keys = read_all<std::int64_t>(in_folder(folder, "key"));
  rows.vectors = read_all<float>(in_folder(folder, "emb_vector"));
  if (with_slots) rows.slot_ids = read_all<std::uint64_t>(in_folder(folder, "slot_id"));
  return rows;
}

BufferBag read_sparse_file(const std::string& file, std::size_t vec_size, bool i64_keys,
                           bool with_slots) {
  const std::vector<std::uint8_t> bytes = read_all<std::uint8_t>(file);
  const std::size_t key_bytes = i64_keys ? 8 : 4;
  const std::size_t slot_bytes = with_slots ? 8 : 0;
  const std::size_t row_bytes = key_bytes + slot_bytes + vec_size * sizeof(float);
  if (bytes.size() % row_bytes != 0) {
    throw DataError(concat("'", file, "' has ", bytes.size(),
                           " bytes, not a multiple of the row of ", row_bytes, " (key ", key_bytes,
                           ", slot ", slot_bytes, ", vector ", vec_size, " x 4)"));
  }
  const std::size_t n = bytes.size() / row_bytes;
  BufferBag rows;
  rows.vec_size = vec_size;
  rows.keys.resize(n);
  rows.slot_ids.resize(with_slots ? n : 0);
  rows.vectors.resize(n * vec_size);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t* row = bytes.data() + i * row_bytes;
    if (i64_keys) {
      std::memcpy(&rows.keys[i], row, 8);
    } else {
      std::uint32_t key;
      std::memcpy(&key, row, 4);
      rows.keys[i] = key;
    }
    if (with_slots) std::memcpy(&rows.slot_ids[i], row + key_bytes, 8);
    std::memcpy(rows.vectors.data() + i * vec_size, row + key_bytes + slot_bytes,
                vec_size * sizeof(float));
  }
  return rows;
}

void write_sparse_states(const std::string& file, const BufferBag& rows) {
  Writer writer(file);
  for (const auto& state : rows.states) writer.write(state);
  writer.close();
}

void read_sparse_states(const std::string& file, const std::vector<std::size_t>& widths,
                        BufferBag& rows) {
  const std::size_t all_widths = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  const std::vector<float> all =
      read_floats(file, all_widths * rows.size(),
                  concat("optimizer states of ", rows.size(),
                         " embedding rows (load the sparse weights first)"));
  rows.states.clear();
  auto from = all.begin();
  for (const std::size_t width : widths) {
    const auto end = from + static_cast<std::ptrdiff_t>(width * rows.size());
    rows.states.emplace_back(from, end);
    from = end;
  }
}

}  // namespace hugectr
