// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/float_values.hpp"

#include <algorithm>

#include "core/cpp/base/half.hpp"

namespace hugectr {
namespace {

float widen(float value) { return value; }
float widen(Float16 value) { return to_float(value); }
float widen(BFloat16 value) { return to_float(value); }

void narrow(float value, float& to) { to = value; }
void narrow(float value, Float16& to) { to = to_float16(value); }
void narrow(float value, BFloat16& to) { to = to_bfloat16(value); }

template <class T>
std::vector<float> read(Stream& stream, const TensorRef& ref) {
  std::vector<float> values(ref.size());
  if (values.empty()) return values;
  // One copy of all rows with what lies between them: a copy a row would cost more.
  std::vector<T> raw((ref.rows() - 1) * ref.row_stride + ref.row_size());
  stream.copy(raw.data(), ref.data, raw.size() * sizeof(T));
  stream.synchronize();
  float* to = values.data();
  for (std::size_t r = 0; r < ref.rows(); ++r) {
    const T* row = raw.data() + r * ref.row_stride;
    to = std::transform(row, row + ref.row_size(), to, [](T value) { return widen(value); });
  }
  return values;
}

template <class T>
void write(Stream& stream, const TensorRef& ref, const std::vector<float>& values) {
  std::vector<T> raw(values.size());
  for (std::size_t i = 0; i < raw.size(); ++i) narrow(values[i], raw[i]);
  if (ref.contiguous()) {
    stream.copy(ref.data, raw.data(), raw.size() * sizeof(T));
  } else {
    const std::size_t row = ref.row_size();
    for (std::size_t r = 0; r < ref.rows(); ++r) {
      stream.copy(ref.row<T>(r), raw.data() + r * row, row * sizeof(T));
    }
  }
  stream.synchronize();
}

}  // namespace

std::vector<float> float_values(Stream& stream, const TensorRef& ref) {
  switch (ref.dtype) {
    case TensorScalarType::Float32:
      return read<float>(stream, ref);
    case TensorScalarType::Float16:
      return read<Float16>(stream, ref);
    case TensorScalarType::BFloat16:
      return read<BFloat16>(stream, ref);
    default:
      throw InvalidArgument(concat("a tensor of ", to_string(ref.dtype),
                                   " has no float values; float32, float16 and bfloat16 have"));
  }
}

void set_float_values(Stream& stream, const TensorRef& ref, const std::vector<float>& values) {
  HCTR_CHECK(values.size() == ref.size(), "the tensor has ", ref.size(), " elements, got ",
             values.size());
  switch (ref.dtype) {
    case TensorScalarType::Float32:
      return write<float>(stream, ref, values);
    case TensorScalarType::Float16:
      return write<Float16>(stream, ref, values);
    case TensorScalarType::BFloat16:
      return write<BFloat16>(stream, ref, values);
    default:
      throw InvalidArgument(concat("a tensor of ", to_string(ref.dtype),
                                   " takes no float values; float32, float16 and bfloat16 do"));
  }
}

}  // namespace hugectr
