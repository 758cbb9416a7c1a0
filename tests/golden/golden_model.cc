#include "tests/golden/golden_model.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "common/base/status.h"
#include "common/model/job_file.h"
#include "common/optimizers/optimizer_rules.h"
#include "tests/golden/golden_data.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

constexpr int64_t kBatch = 8;
int64_t BatchSize(int step) { return step % 4 == 3 ? 5 : kBatch; }

std::string Loss(const json& c) { return c["compile"]["loss"].get<std::string>(); }

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
  return job.dump();
}

std::vector<FeatureType> Features(const json& c, DType dtype) {
  std::vector<FeatureType> features;
  for (const json& layer : c["model"]["layers"]) {
    if (layer["class_name"] != "Input") continue;
    features.push_back({layer["name"].get<std::string>(),
                        layer.value("dtype", "") == "int64" ? DType::kInt64 : dtype,
                        layer["shape"].get<Dims>()});
  }
  const auto units = c["output_units"].get<int64_t>();
  if (Loss(c) == "sparse_categorical_crossentropy") {
    features.push_back({"label", DType::kInt64, {}});
  } else {
    features.push_back({"label", dtype, {units}});
  }
  return features;
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
  std::ifstream in(fmt::format("{}/tests/golden/{}", source != nullptr ? source : ".", name));
  return json::parse(in);
}

absl::StatusOr<std::unique_ptr<GoldenModel>> GoldenModel::Create(const json& c,
                                                                 const std::string& floatx) {
  std::unique_ptr<GoldenModel> self(new GoldenModel());
  self->case_ = c;
  self->dtype_ = *DTypeFromName(floatx);
  self->seed_ = c["seed"].get<uint64_t>();
  COHORT_ASSIGN_OR_RETURN(const JobFile job,
                          ParseJob(JobText(c, floatx), c["name"].get<std::string>()));
  const std::vector<FeatureType> features = Features(c, self->dtype_);
  COHORT_ASSIGN_OR_RETURN(BuiltModel model, BuildModel(job.spec, features, &job.lines));
  for (const std::string& name : model.features) {
    const auto it = std::find_if(features.begin(), features.end(),
                                 [&](const FeatureType& f) { return f.name == name; });
    self->input_positions_.push_back(name == "label" ? kLabelPosition
                                                     : static_cast<int>(it - features.begin()));
  }
  const int masks = FeedMasks(&model.train);
  for (int i = 0; i < masks; ++i) self->input_positions_.push_back(-1 - i);

  COHORT_ASSIGN_OR_RETURN(auto rule, OptimizerRule::Create(model.optimizer));
  self->local_ = std::make_unique<LocalVariables>(std::move(rule));
  for (const v1::VariableSpec& v : model.variables) {
    COHORT_RETURN_IF_ERROR(self->local_->Add(
        v.name(), Tensor::Zeros(self->dtype_, Dims(v.dims().begin(), v.dims().end()))));
  }
  // Keras lists a model's variables by the depth of their layers.
  for (const json& v : c["float64"]["variables"]) {
    self->names_.push_back(v["name"].get<std::string>());
    if (self->local_->Find(self->names_.back()) == nullptr) {
      return NotFound("no variable {} in the model that was built", self->names_.back());
    }
  }
  COHORT_ASSIGN_OR_RETURN(self->access_, LocalAccess::Create(self->local_.get(), model.train));
  COHORT_ASSIGN_OR_RETURN(self->executable_, Executable::Compile(std::move(model.train), {}));
  return self;
}

void GoldenModel::SetWeights(uint64_t seed) {
  for (size_t i = 0; i < names_.size(); ++i) {
    Tensor& value = local_->Find(names_[i])->value;
    const double scale = value.dims().size() > 1 ? 0.5 : 0.1;
    const Tensor drawn =
        UniformTensor(WeightSeed(seed, static_cast<int>(i)), dtype_, value.dims(), -scale, scale);
    std::memcpy(value.raw(), drawn.raw(), drawn.num_bytes());
  }
}

Tensor GoldenModel::InputOf(int step, size_t argument, int64_t size) const {
  const Program& program = executable_->program();
  const ValueType& type = program.type(program.arguments[argument].value);
  Dims dims;
  for (const Dim& d : type.dims) dims.push_back(d.bounded() ? d.size / kBatch * size : d.size);
  const int position = input_positions_[argument];
  if (position < 0) {  // a dropout's recorded mask
    int number = -1 - position;
    double rate = 0;
    for (const json& layer : case_["model"]["layers"]) {
      if (layer["class_name"] == "Dropout" && layer["rate"] > 0 && number-- == 0)
        rate = layer["rate"];
    }
    Tensor u = UniformTensor(MaskSeed(seed_, step, -1 - position), DType::kFloat64, dims, 0, 1);
    for (double& x : u.mutable_values<double>()) x = (x >= rate ? 1.0 : 0.0) / (1.0 - rate);
    if (dtype_ == DType::kFloat64) return u;
    Tensor mask(dtype_, dims);
    std::copy(u.values<double>().begin(), u.values<double>().end(),
              mask.mutable_values<float>().begin());
    return mask;
  }
  const uint64_t seed = InputSeed(seed_, step, position);
  if (position == kLabelPosition) {
    const auto units = case_["output_units"].get<int64_t>();
    if (Loss(case_) == "sparse_categorical_crossentropy") return IntegerTensor(seed, dims, units);
    if (Loss(case_) == "mean_squared_error") return UniformTensor(seed, dtype_, dims, -1, 1);
    const Tensor bits = IntegerTensor(seed, dims, 2);
    Tensor labels = UniformTensor(seed, dtype_, dims, 0, 1);
    for (size_t i = 0; i < static_cast<size_t>(bits.num_elements()); ++i) {
      const auto bit = static_cast<double>(bits.values<int64_t>()[i]);
      if (dtype_ == DType::kFloat64)
        labels.mutable_values<double>()[i] = bit;
      else
        labels.mutable_values<float>()[i] = static_cast<float>(bit);
    }
    return labels;
  }
  if (type.dtype != DType::kInt64) return UniformTensor(seed, dtype_, dims, -1, 1);
  const std::string& name = program.arguments[argument].name;
  int64_t bound = 1;
  for (const json& layer : case_["model"]["layers"]) {
    if (layer["class_name"] == "Embedding" && layer["inputs"][0] == name)
      bound = layer["input_dim"];
  }
  return IntegerTensor(seed, dims, bound);
}

absl::Status GoldenModel::ForwardAndBackward(int step) {
  batch_.clear();
  for (size_t i = 0; i < input_positions_.size(); ++i) {
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

double GoldenModel::metric(size_t i) const {
  return executable_->metric_totals()[i] / executable_->metric_counts()[i];
}

std::vector<double> GoldenModel::Variable(const std::string& name) const {
  const Tensor& value = local_->Find(name)->value;
  return ToDoubles(dtype_, value.raw(), value.num_elements());
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
