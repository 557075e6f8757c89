// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/layer.hpp"

namespace hugectr {
namespace {

std::string gradient_name(const std::string& tensor_name) { return tensor_name + "@grad"; }

}  // namespace

TensorRef LayerBuilder::bottom(const std::string& name) const {
  HCTR_CHECK(!is_helper(name), "tensor \"", name,
             "\" is a helper top: only a FusedInnerProduct may name it, behind its first bottom");
  return schedule_.ref(name);
}

void LayerBuilder::helper(const std::string& name, const Shape& shape) {
  schedule_.add_tensor(name, shape);
  helpers_.insert(name);
}

TensorRef LayerBuilder::top(const std::string& name, const Shape& shape) {
  const TensorRef ref = schedule_.add_tensor(name, shape);
  schedule_.let_be_16_bits(ref);
  return ref;
}

TensorRef LayerBuilder::top(const std::string& name, const Shape& shape, TensorScalarType dtype) {
  return schedule_.add_tensor(name, shape, TensorRole::Activation, dtype);
}

TensorRef LayerBuilder::scratch(const std::string& name, const Shape& shape) {
  const TensorRef ref = schedule_.add_tensor(name, shape, TensorRole::Gradient);
  schedule_.let_be_16_bits(ref);
  return ref;
}

// Nobody asks for scratch by name, so it may share memory like gradients do.
TensorRef LayerBuilder::scratch(const std::string& name, const Shape& shape,
                                TensorScalarType dtype) {
  return schedule_.add_tensor(name, shape, TensorRole::Gradient, dtype);
}

TensorRef LayerBuilder::parameter(Parameter parameter) {
  const TensorRef ref = schedule_.add_tensor(parameter.name, parameter.shape, TensorRole::External);
  schedule_.let_be_16_bits(ref);
  parameters_.push_back(std::move(parameter));
  return ref;
}

TensorRef LayerBuilder::non_trainable(NonTrainable tensor) {
  const TensorRef ref = schedule_.add_tensor(tensor.name, tensor.shape, TensorRole::External);
  non_trainables_.push_back(std::move(tensor));
  return ref;
}

TensorRef LayerBuilder::parameter_gradient(const TensorRef& parameter) {
  const ScheduleTensor& tensor = schedule_.tensors().at(static_cast<std::size_t>(parameter.id));
  const std::string name = gradient_name(tensor.name);
  if (schedule_.has(name)) return schedule_.ref(name);
  const Shape shape = tensor.shape;  // add_tensor may move the list `tensor` lies in
  return schedule_.add_tensor(name, shape, TensorRole::External);
}

TensorRef LayerBuilder::gradient(const std::string& tensor_name) {
  const std::string name = gradient_name(tensor_name);
  if (schedule_.has(name)) return schedule_.ref(name);
  const TensorRef tensor = schedule_.ref(tensor_name);
  const TensorRef ref =
      schedule_.add_tensor(name, tensor.shape, TensorRole::Gradient, tensor.dtype);
  if (schedule_.tensors()[static_cast<std::size_t>(tensor.id)].may_be_16_bits)
    schedule_.let_be_16_bits(ref);
  return ref;
}

bool LayerBuilder::needs_gradient(const std::string& tensor_name) const {
  return no_gradient_.count(tensor_name) == 0;
}

void LayerBuilder::mark_no_gradient(const std::string& tensor_name) {
  no_gradient_.insert(tensor_name);
}

}  // namespace hugectr
