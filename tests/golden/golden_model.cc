#include "tests/golden/golden_model.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "common/base/status.h"
#include "common/exec/local_variables_test_util.h"
#include "common/exec/test_device.h"
#include "common/model/job_file.h"
#include "common/schema/class_registry.h"
#include "tests/golden/golden_data.h"

namespace cohort::golden {
namespace {

using nlohmann::json;
using Column = GoldenModel::Column;

constexpr int64_t kBatch = 8;
constexpr int kFirstState = 100;  // STATE of keras_models.py
int64_t BatchSize(int step) { return step % 4 == 3 ? 5 : kBatch; }

// The names of the columns of a part of a case.
json NamesOf(const json& columns) {
  json names = json::array();
  for (const json& column : columns) names.push_back(column["name"]);
  return names;
}

// "huber" of "huber" and of {"Huber": {"delta": 0.5}}.
std::string Loss(const json& c) {
  const json& loss = c["compile"]["loss"];
  return SnakeCase(loss.is_string() ? loss.get<std::string>() : loss.items().begin().key());
}

// JSON is YAML, so the sections of a case are sections of a job file.
std::string JobText(const json& c, const std::string& floatx) {
  json job;
  job["name"] = "golden";
  job["model"]["dtype"] = floatx;
  std::string previous;
  for (json layer : c["model"]["layers"]) {
    if (layer["class_name"] != "Input" && !layer.contains("inputs")) layer["inputs"] = {previous};
    previous = layer["name"].get<std::string>();
    const auto class_name = layer["class_name"].get<std::string>();
    layer.erase("class_name");
    if (class_name == "Reshape") {
      layer["target_shape"] = layer["shape"];
      layer.erase("shape");
    }
    job["model"]["functional"].push_back({{class_name, std::move(layer)}});
  }
  job["compile"] = c["compile"];
  job["data"] = {{"batch_size", kBatch},
                 {"train", {{"csv", {{"path", "none.csv"}}}, {"label", "label"}}}};
  job["fit"] = {{"epochs", 1}};
  if (c.contains("labels")) job["data"]["train"]["label"] = NamesOf(c["labels"]);
  if (c.contains("sample_weight")) job["data"]["train"]["sample_weight"] = c["sample_weight"];
  if (c.contains("class_weight")) job["fit"]["class_weight"] = c["class_weight"];
  if (c["model"].contains("outputs")) job["model"]["outputs"] = c["model"]["outputs"];
  return job.dump();
}

// The columns of a case whose model is a section of a job file: those of its Input layers, and the
// label.
std::vector<Column> ColumnsOfLayers(const json& c) {
  std::vector<Column> columns;
  for (const json& layer : c["model"]["layers"]) {
    if (layer["class_name"] != "Input") continue;
    Column column{.name = layer["name"].get<std::string>(),
                  .kind = layer.value("dtype", "") == "int64" ? "ids" : "real",
                  .dims = layer["shape"].get<Dims>(),
                  .bound = 1,
                  .position = static_cast<int>(columns.size())};
    for (const json& other : c["model"]["layers"]) {
      const bool has_table =
          other["class_name"] == "Embedding" || other["class_name"] == "EmbeddingBag";
      if (!has_table || other["inputs"][0] != column.name) continue;
      for (const json& table : c["model"]["layers"]) {
        if (table["name"] == other.value("shares", other["name"]))
          column.bound = table["input_dim"];
      }
    }
    columns.push_back(std::move(column));
  }
  if (c.contains("labels")) {  // the case says what they are
    for (const char* part : {"labels", "weights"}) {
      for (const json& column : c.value(part, json::array())) {
        columns.push_back({.name = column["name"].get<std::string>(),
                           .kind = column["kind"].get<std::string>(),
                           .dims = column["dims"].get<Dims>(),
                           .bound = column["bound"].get<int64_t>(),
                           .position = column["position"].get<int>()});
      }
    }
    return columns;
  }
  const auto units = c["output_units"].get<int64_t>();
  Column label{
      .name = "label", .kind = "real", .dims = {units}, .bound = units, .position = kLabelPosition};
  const std::string loss = Loss(c);
  if (loss == "binary_crossentropy") label.kind = "bits";
  if (loss == "categorical_crossentropy") label.kind = "one_hot";
  if (loss == "sparse_categorical_crossentropy") {
    label.kind = "ids";
    label.dims = {};
  }
  columns.push_back(std::move(label));
  return columns;
}

// The columns of a case with the JSON of a model.
std::vector<Column> ColumnsOfKeras(const json& c) {
  std::vector<Column> columns;
  for (const char* part : {"inputs", "labels"}) {
    for (const json& column : c[part]) {
      columns.push_back({.name = column["column"].get<std::string>(),
                         .kind = column["kind"].get<std::string>(),
                         .dims = column["dims"].get<Dims>(),
                         .bound = column["bound"].get<int64_t>(),
                         .position = column["position"].get<int>()});
    }
  }
  return columns;
}

// The batch of a column, as golden_data.py makes it.
Tensor BatchOf(const Column& column, uint64_t seed, DType dtype, int64_t size) {
  Dims dims = column.dims;
  dims.insert(dims.begin(), size);
  if (column.kind == "ids") return IntegerTensor(seed, dims, column.bound);
  if (column.kind == "real") return UniformTensor(seed, dtype, dims, -1, 1);
  if (column.kind == "unit") return UniformTensor(seed, dtype, dims, 0, 1);
  const bool one_hot = column.kind == "one_hot";
  const auto width = static_cast<size_t>(dims.back());
  const Tensor numbers =
      one_hot ? IntegerTensor(seed, {size}, dims.back()) : IntegerTensor(seed, dims, 2);
  Tensor labels = UniformTensor(seed, dtype, dims, 0, 1);
  for (size_t i = 0; i < static_cast<size_t>(labels.num_elements()); ++i) {
    const auto number = numbers.values<int64_t>()[one_hot ? i / width : i];
    const auto wanted = one_hot ? static_cast<int64_t>(i % width) : 1;
    const double bit = number == wanted ? 1 : 0;
    if (dtype == DType::kFloat64)
      labels.mutable_values<double>()[i] = bit;
    else
      labels.mutable_values<float>()[i] = static_cast<float>(bit);
  }
  return labels;
}

// Makes every dropout's mask an argument of the program, at its end.
int FeedMasks(Program* program) {
  int masks = 0;
  std::vector<Node> nodes;
  for (const Node& node : program->nodes) {
    if (node.op != "dropout") {
      nodes.push_back(node);
      continue;
    }
    const ValueId mask = node.outputs[1];
    const auto index = static_cast<int64_t>(program->arguments.size());
    nodes.push_back(
        {.op = "input", .name = node.name, .outputs = {mask}, .attrs = {{"index", index}}});
    nodes.push_back({.op = "mul",
                     .name = node.name,
                     .inputs = {node.inputs[0], mask},
                     .outputs = {node.outputs[0]}});
    program->arguments.push_back({fmt::format("mask_{}", masks++), mask});
  }
  program->nodes = std::move(nodes);
  return masks;
}

// The rate of each mask of a case, as keras_models.RecordedMasks numbers them.
std::vector<double> MaskRates(const json& c) {
  std::vector<double> rates;
  for (const json& layer : c["model"]["layers"]) {
    const auto name = layer["class_name"].get<std::string>();
    const double states = layer.value("recurrent_dropout", 0.0);
    const bool per_gate = states > 0 || layer.value("implementation", 2) == 1;
    const int gates = !per_gate ? 1 : name == "LSTM" ? 4 : name == "GRU" ? 3 : 1;
    for (const double rate : {layer.value("dropout", 0.0), states}) {
      if (rate > 0) rates.insert(rates.end(), static_cast<size_t>(gates), rate);
    }
    if ((name == "Dropout" || name == "AlphaDropout") && layer["rate"] > 0) {
      rates.push_back(layer["rate"]);
    }
  }
  return rates;
}

std::vector<double> ToDoubles(DType dtype, const void* data, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = dtype == DType::kFloat64 ? static_cast<const double*>(data)[i]
                                      : static_cast<double>(static_cast<const float*>(data)[i]);
  }
  return out;
}

}  // namespace

json ReadGolden(const std::string& name) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  const std::string beside =
      fmt::format("{}/tests/golden/{}", source != nullptr ? source : ".", name);
  const gzFile file = gzopen((name.starts_with('/') ? name : beside).c_str(), "rb");
  if (file == nullptr) return json();
  std::string text;
  std::string block(1 << 16, '\0');
  for (int n = 0; (n = gzread(file, block.data(), 1 << 16)) > 0;) {
    text.append(block, 0, static_cast<size_t>(n));
  }
  gzclose(file);
  return json::parse(text);
}

absl::StatusOr<std::unique_ptr<GoldenModel>> GoldenModel::Create(const json& c,
                                                                 const std::string& floatx) {
  COHORT_ASSIGN_OR_RETURN(const JobFile job,
                          ParseJob(JobText(c, floatx), c["name"].get<std::string>()));
  std::vector<std::string> names;
  for (const json& v : c["float64"]["variables"]) names.push_back(v["name"].get<std::string>());
  return Create(c, job, ColumnsOfLayers(c), std::move(names));
}

absl::StatusOr<std::unique_ptr<GoldenModel>> GoldenModel::CreateFromKeras(
    const json& c, const std::string& directory) {
  std::ofstream(directory + "/model.json") << c["keras_json"].dump();
  json job = {{"model", {{"keras_json", "model.json"}}},
              {"data", {{"batch_size", kBatch}, {"train", {{"csv", {{"path", "none.csv"}}}}}}}};
  if (c.contains("compile")) job["compile"] = c["compile"];
  for (const json& label : c["labels"]) job["data"]["train"]["label"].push_back(label["column"]);
  COHORT_ASSIGN_OR_RETURN(const JobFile read, ParseJob(job.dump(), directory + "/job.yaml"));
  std::vector<std::string> names;
  for (const json& v : c["variables"]) names.push_back(v["name"].get<std::string>());
  return Create(c, read, ColumnsOfKeras(c), std::move(names));
}

absl::StatusOr<std::unique_ptr<GoldenModel>> GoldenModel::Create(const json& c, const JobFile& job,
                                                                 std::vector<Column> columns,
                                                                 std::vector<std::string> names) {
  std::unique_ptr<GoldenModel> self(new GoldenModel());
  self->case_ = c;
  self->dtype_ = *DTypeFromName(job.spec.model().dtype());
  self->seed_ = c["seed"].get<uint64_t>();
  self->columns_ = std::move(columns);
  self->names_ = std::move(names);
  for (const json& v : c.value("float64", json::object()).value("state", json::array())) {
    self->state_names_.push_back(v["name"].get<std::string>());
  }
  std::vector<FeatureType> features;
  for (const Column& column : self->columns_) {
    features.push_back(
        {column.name, column.kind == "ids" ? DType::kInt64 : self->dtype_, column.dims});
  }
  COHORT_ASSIGN_OR_RETURN(BuiltModel model, BuildModel(job.spec, features, &job.lines));
  for (const std::string& name : model.features) {
    const auto it = std::find_if(features.begin(), features.end(),
                                 [&](const FeatureType& f) { return f.name == name; });
    self->arguments_.push_back(static_cast<int>(it - features.begin()));
  }
  const int masks = FeedMasks(&model.train);
  for (int i = 0; i < masks; ++i) self->arguments_.push_back(-1 - i);

  COHORT_ASSIGN_OR_RETURN(self->local_, LocalVariables::Create(model.variables, model.optimizers));
  std::vector<std::string> all = self->names_;
  all.insert(all.end(), self->state_names_.begin(), self->state_names_.end());
  for (const std::string& name : all) {
    if (testing::TensorsOf(*self->local_, name).empty()) {
      return NotFound("no variable {} in the model that was built", name);
    }
  }
  COHORT_ASSIGN_OR_RETURN(self->access_, self->local_->ForProgram(model.train));
  COHORT_ASSIGN_OR_RETURN(self->executable_,
                          Executable::Compile(std::move(model.train), testing::OnTestDevice()));
  return self;
}

void GoldenModel::SetWeights(uint64_t seed) {
  const auto dims_of = [this](const std::string& name) {
    return Dims(testing::TensorsOf(*local_, name).at(0).dims());
  };
  for (size_t i = 0; i < names_.size(); ++i) {
    const Dims dims = dims_of(names_[i]);
    const double scale = dims.size() > 1 ? 0.5 : 0.1;
    testing::SetVariable(
        *local_, names_[i],
        UniformTensor(WeightSeed(seed, static_cast<int>(i)), dtype_, dims, -scale, scale));
  }
  for (size_t i = 0; i < state_names_.size(); ++i) {
    testing::SetVariable(*local_, state_names_[i],
                         UniformTensor(WeightSeed(seed, kFirstState + static_cast<int>(i)), dtype_,
                                       dims_of(state_names_[i]), 0.5, 1.5));
  }
}

Tensor GoldenModel::InputOf(int step, size_t argument, int64_t size) const {
  const int source = arguments_[argument];
  if (source < 0) return MaskOf(step, argument, size);
  const Column& column = columns_[static_cast<size_t>(source)];
  return BatchOf(column, InputSeed(seed_, step, column.position), dtype_, size);
}

Tensor GoldenModel::MaskOf(int step, size_t argument, int64_t size) const {
  const Program& program = executable_->program();
  const ValueType& type = program.type(program.arguments[argument].value);
  Dims dims;
  for (const Dim& d : type.dims) dims.push_back(d.bounded() ? d.size / kBatch * size : d.size);
  const int mask_number = -1 - arguments_[argument];
  const double rate = MaskRates(case_).at(static_cast<size_t>(mask_number));
  Tensor u = UniformTensor(MaskSeed(seed_, step, mask_number), DType::kFloat64, dims, 0, 1);
  for (double& x : u.mutable_values<double>()) x = (x >= rate ? 1.0 : 0.0) / (1.0 - rate);
  if (dtype_ == DType::kFloat64) return u;
  Tensor mask(dtype_, dims);
  std::copy(u.values<double>().begin(), u.values<double>().end(),
            mask.mutable_values<float>().begin());
  return mask;
}

absl::Status GoldenModel::ForwardAndBackward(int step) {
  batch_.clear();
  for (size_t i = 0; i < arguments_.size(); ++i) {
    batch_.push_back(InputOf(step, i, BatchSize(step)));
  }
  COHORT_RETURN_IF_ERROR(executable_->Bind(batch_));
  COHORT_RETURN_IF_ERROR(executable_->Prepare(RandomKey{}));
  const PullBatch pull{.place = static_cast<uint64_t>(step), .items = executable_->pulls()};
  COHORT_RETURN_IF_ERROR(access_->Exchange(nullptr, &pull).status());
  return executable_->Run();
}

absl::Status GoldenModel::Apply(int step) {
  const PushBatch push{.stamp = {.closure = static_cast<uint64_t>(step),
                                 .place = static_cast<uint64_t>(step),
                                 .weight = executable_->weight()},
                       .items = executable_->pushes()};
  return access_->Exchange(&push, nullptr).status();
}

std::pair<double, double> GoldenModel::metric_sums(size_t i) const {
  return {executable_->metric_values()[2 * i], executable_->metric_values()[2 * i + 1]};
}

double GoldenModel::metric(size_t i) const {
  const auto [total, count] = metric_sums(i);
  return total / count;
}

std::vector<std::string> GoldenModel::metric_names() const {
  std::vector<std::string> names;
  for (const auto& metric : executable_->program().metrics) names.push_back(metric.name);
  return names;
}

std::vector<double> GoldenModel::Variable(const std::string& name) const {
  const Tensor value = testing::TensorsOf(*local_, name).at(0);
  std::vector<double> sum = ToDoubles(dtype_, value.raw(), value.num_elements());
  // The kernel of SpectralNormalization.
  for (const Tensor& offset : testing::TensorsOf(*local_, name + "_offset")) {
    const std::vector<double> more = ToDoubles(dtype_, offset.raw(), offset.num_elements());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  return sum;
}

std::vector<double> GoldenModel::Gradient(const std::string& name) const {
  const Program& program = executable_->program();
  std::vector<double> gradient(Variable(name).size(), 0.0);
  for (const PushItem& push : executable_->pushes()) {
    if (program.variables[static_cast<size_t>(push.variable)].name != name) continue;
    const auto elements = static_cast<int64_t>(gradient.size());
    if (!push.sparse) {
      gradient = ToDoubles(dtype_, push.value, elements);
      continue;
    }
    const int64_t row =
        elements / program.variables[static_cast<size_t>(push.variable)].type.dims[0].size;
    const auto values = ToDoubles(dtype_, push.value, row * static_cast<int64_t>(push.keys.size()));
    for (size_t k = 0; k < push.keys.size(); ++k) {
      std::copy_n(values.begin() + static_cast<int64_t>(k) * row, row,
                  gradient.begin() + push.keys[k] * row);
    }
  }
  for (double& g : gradient) g /= executable_->weight();
  return gradient;
}

}  // namespace cohort::golden
