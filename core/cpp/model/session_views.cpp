// SPDX-License-Identifier: Apache-2.0
// The part of Session that shows its memory to other libraries.
#include "core/cpp/model/session.hpp"
#include "core/cpp/model/session_state.hpp"

namespace hugectr {
namespace {

/// Shares the whole model: streams, events and pages go with it.
TensorView view_of(const std::shared_ptr<const void>& model, ResourceManager& resources,
                   std::size_t local_id, const TensorRef& ref) {
  return {ref, model, &resources.get_local_gpu(local_id).compute_stream()};
}

/// A parameter's part of flat arrays of all parameters, one after the other.
TensorRef part_of(const NetworkGraph& graph, TensorRef flat, std::size_t array,
                  const std::string& name) {
  const std::vector<Parameter>& parameters = graph.parameters();
  std::string known;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    known += (known.empty() ? "'" : ", '") + parameters[i].name + "'";
    if (parameters[i].name != name) continue;
    flat.data =
        flat.ptr<float>() + array * graph.layout().flat_size() + graph.layout().offsets()[i];
    flat.shape = parameters[i].shape;
    flat.row_stride = flat.row_size();
    return flat;
  }
  throw InvalidArgument(concat("there is no dense weight '", name, "'; the model has: ", known));
}

}  // namespace

TensorView Session::tensor_view(const std::string& name, bool train, std::size_t local_id) {
  GPUResource& gpu = impl_->resources->get_local_gpu(local_id);
  // The memory of gradients is shared between them: what it holds after a step is nobody's.
  HCTR_CHECK(name.find('@') == std::string::npos, "tensor '", name,
             "': only tensors that the model names can be looked at");
  return view_of(impl_, *impl_->resources, gpu.get_local_id(),
                 impl_->networks[local_id]->tensor(name, train));
}

std::vector<std::string> Session::weight_names() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : impl_->graph->parameters()) names.push_back(parameter.name);
  return names;
}

TensorView Session::weight_view(const std::string& name, std::size_t local_id) {
  Impl& s = *impl_;
  s.resources->get_local_gpu(local_id);  // checks the number
  return view_of(impl_, *s.resources, local_id,
                 part_of(*s.graph, s.networks[local_id]->weights(), 0, name));
}

TensorView Session::state_view(const std::string& name, std::size_t state, std::size_t local_id) {
  Impl& s = *impl_;
  s.resources->get_local_gpu(local_id);  // checks the number
  HCTR_CHECK(state < s.graph->state_count(), "there is no optimizer state ", state,
             ": the model's optimizer has ", s.graph->state_count());
  return view_of(impl_, *s.resources, local_id,
                 part_of(*s.graph, s.networks[local_id]->states(), state, name));
}

TableViews Session::table_view(std::size_t index, std::size_t local_id) {
  Impl& s = *impl_;
  HCTR_CHECK(index < s.tables->size(), "there is no table ", index, ": the model has ",
             s.tables->size());
  s.resources->get_local_gpu(local_id);  // checks the number
  s.planner->settle();                   // a plan under way may be growing the table
  const TableRows rows = (*s.tables)[index].rows(local_id);
  const auto view = [&](const TensorRef& ref) {
    return view_of(impl_, *s.resources, local_id, ref);
  };
  TableViews views{view(rows.keys), view(rows.slots), view(rows.vectors), {}};
  for (const TensorRef& state : rows.states) views.states.push_back(view(state));
  return views;
}

void Session::set_weight(const std::string& name, const TensorView& values) {
  const TensorRef& from = values.ref;
  const TensorRef wanted = weight_view(name, 0).ref;
  HCTR_CHECK(from.shape == wanted.shape && from.dtype == wanted.dtype, "dense weight '", name,
             "' is ", to_string(wanted.dtype), " ", to_string(wanted.shape), ", found ",
             to_string(from.dtype), " ", to_string(from.shape));
  HCTR_CHECK(from.device.type == DeviceType::Cpu || wanted.device.type == DeviceType::Cuda,
             "dense weight '", name, "' lies on the CPU and can not be set from ",
             to_string(from.device), ": copy the values to the host first");
  for (std::size_t id = 0; id < impl_->devices(); ++id) {
    const TensorView to = weight_view(name, id);
    if (from.device.type == DeviceType::Cuda) {
      DeviceBackend::get(DeviceType::Cuda)
          .order_streams(native_stream_of(values), native_stream_of(to));
    }
    copy_rows(*to.stream, from, to.ref);
    impl_->networks[id]->round_weights_to_16_bits();
  }
  for (std::size_t id = 0; id < impl_->devices(); ++id) weight_view(name, id).stream->synchronize();
}

void Session::wait_for_stream(void* stream) {
  HCTR_CHECK(impl_->resources->device_type() == DeviceType::Cuda,
             "a model on the CPU waits for no stream: its tensors are read by the host");
  DeviceBackend& backend = DeviceBackend::get(DeviceType::Cuda);
  for (std::size_t id = 0; id < impl_->devices(); ++id) {
    GPUResource& gpu = impl_->resources->get_local_gpu(id);
    // Every device has default streams of its own.
    backend.order_streams({gpu.device(), stream}, {gpu.device(), gpu.compute_stream().native()});
    impl_->networks[id]->round_weights_to_16_bits();  // weights may have been written
  }
}

}  // namespace hugectr
