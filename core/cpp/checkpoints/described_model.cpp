// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/described_model.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/placement/type_names.hpp"

namespace hugectr {
namespace {

/// Keys of a slot at most: how many there may be was a setting of the reader's.
constexpr int kMostKeys = 1 << 20;
constexpr std::int64_t kMostSlots = 1 << 20;

std::size_t size_at(const Json& json, const char* name, const std::string& where) {
  const std::string place = where + "." + name;
  return static_cast<std::size_t>(json.at(name, where).integer(place, 0, std::int64_t{1} << 31));
}

std::string text_at(const Json& json, const char* name, const std::string& where) {
  return json.at(name, where).text(where + "." + name);
}

/// One text, or a list of them.
std::vector<std::string> texts_at(const Json& json, const char* name, const std::string& where) {
  const Json& found = json.at(name, where);
  const std::string place = where + "." + name;
  if (std::holds_alternative<std::string>(found.value())) return {found.text(place)};
  return found.texts(place);
}

InputSpec input_of(const Json& description) {
  InputSpec input;
  const Json &label = description.at("label", "description"),
             &dense = description.at("dense", "description");
  const auto names = texts_at(label, "name", "label");
  if (std::holds_alternative<std::string>(label.at("name", "label").value())) {
    input.label_dim = size_at(label, "dim", "label");
  } else {
    const auto& dims = label.at("dim", "label").list("label.dim");
    if (names.empty() || dims.size() != names.size()) {
      throw DataError("label.dim must be of one number a name");
    }
    input.label_dim = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto dim = static_cast<std::size_t>(dims[i].integer("label.dim", 0, 1 << 20));
      input.labels.push_back({names[i], dim});
      input.label_dim += dim;
    }
    if (names.size() == 1) input.labels.clear();
    input.group_name = text_at(label, "group", "label");
  }
  input.label_name = names[0];
  input.dense_name = text_at(dense, "name", "dense");
  input.dense_dim = size_at(dense, "dim", "dense");
  for (const Json& one : description.at("inputs", "description").list("inputs")) {
    SparseInput sparse;
    sparse.top_name = text_at(one, "name", "inputs");
    sparse.slot_num =
        static_cast<std::size_t>(one.at("slots", "inputs").integer("inputs.slots", 0, kMostSlots));
    sparse.nnz_per_slot.assign(sparse.slot_num, kMostKeys);
    if (const Json* const positions = one.find("positions", "inputs")) {
      sparse.nnz_per_slot.clear();
      for (const Json& most : positions->list("inputs.positions")) {
        sparse.nnz_per_slot.push_back(
            static_cast<int>(most.integer("inputs.positions", 1, kMostKeys)));
      }
    }
    input.sparse.push_back(std::move(sparse));
  }
  return input;
}

DataError refused(const std::string& found, const std::string& where) {
  return DataError(concat(where, " is '", found, "', which this version does not have"));
}

template <class T>
T choice(const std::string& found, const std::string& where,
         std::initializer_list<std::pair<const char*, T>> allowed) {
  for (const auto& [name, value] : allowed) {
    if (found == name) return value;
  }
  throw refused(found, where);
}

SparseEmbeddingSpec table_of(const Json& json) {
  SparseEmbeddingSpec table;
  table.type = embedding_type_of_manifest(text_at(json, "type", "tables"));
  table.combiner = choice<Combiner>(
      text_at(json, "combiner", "tables"), "tables.combiner",
      {{"sum", Combiner::Sum}, {"mean", Combiner::Mean}, {"concat", Combiner::Concat}});
  table.name = text_at(json, "name", "tables");
  if (json.find("top", "tables") != nullptr) table.top = text_at(json, "top", "tables");
  table.bottoms = texts_at(json, "input", "tables");
  table.embedding_vec_size = size_at(json, "vec_size", "tables");
  if (json.find("vector_type", "tables") != nullptr) {
    table.vector_type = choice<TensorScalarType>(
        text_at(json, "vector_type", "tables"), "tables.vector_type",
        {{"float32", TensorScalarType::Float32}, {"bfloat16", TensorScalarType::BFloat16}});
  }
  // Sizes of slots are a budget of rows too, which was that of the training.
  return table;
}

bool is_whole(const Json& json) {
  const auto* const number = std::get_if<Json::Number>(&json.value());
  return number != nullptr && number->text.find_first_of(".eE") == std::string_view::npos;
}

AttributeValue attribute_of(const Json& json, const std::string& where) {
  if (const auto* const flag = std::get_if<bool>(&json.value())) return *flag;
  if (const auto* const text = std::get_if<std::string>(&json.value())) return *text;
  if (is_whole(json)) return json.integer(where, INT64_MIN);
  if (std::holds_alternative<Json::Number>(json.value())) return json.number(where);
  const std::vector<Json>& items = json.list(where);
  if (std::all_of(items.begin(), items.end(), is_whole)) {
    std::vector<std::int64_t> values;
    for (const Json& item : items) values.push_back(item.integer(where, INT64_MIN));
    return values;
  }
  std::vector<double> values;
  for (const Json& item : items) values.push_back(item.number(where));
  return values;
}

DenseLayerSpec layer_of(const Json& json) {
  DenseLayerSpec layer;
  layer.type = text_at(json, "type", "layers");
  layer.bottoms = texts_at(json, "inputs", "layers");
  layer.tops = texts_at(json, "outputs", "layers");
  for (const auto& [name, value] : json.at("parameters", "layers").members("layers.parameters")) {
    layer.attributes.set(name, attribute_of(value, concat("layers.parameters.", name)));
  }
  return layer;
}

}  // namespace

DescribedModel described_model(const Json& description, DeviceType device, std::size_t batch_size) {
  DescribedModel found;
  SolverSpec& solver = found.solver;
  solver.seed = 1;  // nothing is drawn
  solver.batchsize = solver.batchsize_eval = batch_size;
  solver.device = device;
  solver.metrics.clear();
  solver.i64_input_key = choice<bool>(text_at(description, "keys", "description"), "keys",
                                      {{"int64", true}, {"uint32", false}});
  solver.compute_dtype =
      choice<TensorScalarType>(text_at(description, "precision", "description"), "precision",
                               {{"float32", TensorScalarType::Float32},
                                {"float16", TensorScalarType::Float16},
                                {"bfloat16", TensorScalarType::BFloat16}});
  ModelSpec& model = found.model;
  model.trains = false;
  model.input = input_of(description);
  for (const Json& one : description.at("tables", "description").list("tables")) {
    model.embeddings.push_back(table_of(one));
  }
  for (const Json& one : description.at("layers", "description").list("layers")) {
    model.layers.push_back(layer_of(one));
  }
  return found;
}

}  // namespace hugectr
