#include "common/model/column_reads.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/printable.h"
#include "common/data/dataset.h"
#include "common/model/layer_graph.h"
#include "common/model/layers/layer_names.h"
#include "common/model/losses/loss.h"
#include "common/model/mode_graph.h"
#include "common/model/row_keys.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using Reads = std::map<std::string, v1::ColumnRead>;  // by column

constexpr std::string_view kInteger = "int64";

// The columns that a model names: those of its Inputs and the labels. The data may have others.
std::vector<FeatureType> NamedColumns(const v1::JobSpec& job) {
  std::vector<FeatureType> columns;
  const auto add = [&](const std::string& name) {
    const bool known = std::any_of(columns.begin(), columns.end(),
                                   [&](const FeatureType& c) { return c.name == name; });
    if (!known) columns.push_back({name, DType::kFloat32, {}});
  };
  LayerNames names;
  bool any = false;
  for (const v1::LayerSpec& layer : job.model().layers()) {
    std::string name = layer.name();
    if (name.empty() && layer.shares().empty()) name = names.Next(layer.class_name());
    if (layer.class_name() != "Input") continue;
    any = true;
    const auto feature = layer.config().find("feature");
    const bool given = feature != layer.config().end() && !feature->second.s().empty();
    add(given ? feature->second.s() : name);
  }
  if (!any) add("");
  for (const std::string& target : TargetsOf(job.data().train())) add(target);
  return columns;
}

// What an integer dtype, or several readers, ask for together.
void AddIntegers(const std::string& column, int64_t below, std::string reader, Reads* reads) {
  v1::ColumnRead& read = (*reads)[column];
  const bool is_closer = read.below() == 0 || (below > 0 && below < read.below());
  if (read.dtype() == kInteger && !is_closer) return;
  read.set_column(column);
  read.set_dtype(std::string(kInteger));
  read.set_below(below > 0 ? below : read.below());
  read.set_reader(std::move(reader));
}

void AddFloats(const std::string& column, const std::string& floatx, Reads* reads) {
  v1::ColumnRead& read = (*reads)[column];
  if (!read.dtype().empty()) return;
  read.set_column(column);
  read.set_dtype(floatx);
}

Reads ReadsOfInputs(const LayerGraph& graph, const std::vector<FeatureType>& columns,
                    const std::string& floatx) {
  Reads reads;
  const std::vector<const GraphLayer*> readers = ReadersOfIds(graph);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& layer = graph.layers[i];
    if (layer.feature < 0) continue;
    const std::string& column = columns[static_cast<size_t>(layer.feature)].name;
    const std::string dtype = Config(layer.config).String("dtype");
    const auto quoted = [](const GraphLayer& of) {
      return fmt::format("layer \"{}\"", PrintableLine(of.name));
    };
    if (readers[i] != nullptr) {
      // Ids of a table without bounds are any numbers.
      const int64_t below =
          readers[i]->layer_class->unbounded ? 0 : Config(readers[i]->config).Int("input_dim");
      AddIntegers(column, below, quoted(*readers[i]), &reads);
      const auto call = static_cast<size_t>(readers[i] - graph.layers.data());
      // BuildModel reports its error.
      const auto padding = PaddingOfIds(graph, call);
      if (padding.ok() && padding->has_value()) reads[column].set_padding(**padding);
    } else if (dtype.starts_with("int")) {
      AddIntegers(column, 0, fmt::format("{} of dtype {}", quoted(layer), dtype), &reads);
    } else {
      AddFloats(column, floatx, &reads);
    }
  }
  // The weights of ragged ids.
  for (const GraphLayer& layer : graph.layers) {
    if (!layer.layer_class->takes_keys || layer.inputs.size() < 2) continue;
    const GraphLayer& ids = graph.layers[static_cast<size_t>(layer.inputs[0])];
    const GraphLayer& weights = graph.layers[static_cast<size_t>(layer.inputs[1])];
    if (ids.feature < 0 || weights.feature < 0 || !Config(ids.config).Bool("ragged")) continue;
    const auto column_of = [&](const GraphLayer& input) {
      return columns[static_cast<size_t>(input.feature)].name;
    };
    reads[column_of(weights)].set_lengths_of(column_of(ids));
  }
  return reads;
}

// The number of classes of an output: the units of the Dense layer before its activations. 0: only
// the built model knows.
int64_t ClassesOf(const LayerGraph& graph, const GraphOutput& output) {
  size_t at = static_cast<size_t>(output.layer);
  const auto name = [&] { return std::string_view(graph.layers[at].layer_class->schema.name); };
  while (name() == "Activation" || name() == "Softmax") {
    at = static_cast<size_t>(graph.layers[at].inputs[0]);
  }
  return name() == "Dense" ? Config(graph.layers[at].config).Int("units") : 0;
}

const v1::ClassConfig& LossOf(const v1::CompileSpec& compile, const std::string& output) {
  for (const v1::OutputLoss& loss : compile.losses()) {
    if (compile.losses_size() == 1 || loss.output() == output) return loss.loss_class();
  }
  return compile.loss_class();
}

void SetReads(const Reads& inputs, const LayerGraph& graph, const v1::JobSpec& job,
              v1::DatasetSpec* dataset) {
  dataset->clear_reads();
  Reads reads = inputs;
  const std::vector<std::string> labels = LabelsOf(*dataset);
  for (size_t i = 0; i < std::min(labels.size(), graph.outputs.size()); ++i) {
    const v1::ClassConfig& loss = LossOf(job.compile(), graph.outputs[i].name);
    const auto found = Losses().Find(loss.class_name());
    if (found.ok() && (*found)->label == LossClass::Label::kClassNumber) {
      const auto ignored = loss.config().find("ignore_class");
      const bool ignores = ignored != loss.config().end() && ignored->second.has_i();
      AddIntegers(labels[i], ignores ? 0 : ClassesOf(graph, graph.outputs[i]),
                  fmt::format("the loss {}", (*found)->schema.name), &reads);
    } else {
      AddFloats(labels[i], job.model().dtype(), &reads);
    }
  }
  for (const std::string& weight : dataset->sample_weight()) {
    if (!weight.empty()) AddFloats(weight, job.model().dtype(), &reads);
  }
  for (auto& [column, read] : reads) {
    const bool says_more =
        read.dtype() == kInteger || read.dtype() == "float64" || !read.lengths_of().empty();
    if (says_more) *dataset->add_reads() = read;
  }
}

}  // namespace

void SetColumnReads(v1::JobSpec* job) {
  v1::DataSpec* const data = job->mutable_data();
  const std::vector<FeatureType> columns = NamedColumns(*job);
  const auto graph = MakeLayerGraph(*job, columns, nullptr);
  if (!graph.ok()) return;
  const Reads inputs = ReadsOfInputs(*graph, columns, job->model().dtype());
  const LayerGraph training = GraphOfMode(*graph, true);
  SetReads(inputs, training, *job, data->mutable_train());
  if (data->has_validation()) SetReads(inputs, training, *job, data->mutable_validation());
}

}  // namespace cohort
