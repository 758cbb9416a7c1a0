#include "common/model/compile_reader.h"

#include <absl/strings/match.h>

#include <algorithm>

#include "common/model/keras_json/keras_json_file.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "common/optimizers/optimizers.h"
#include "proto/job.pb.h"

namespace cohort {

absl::Status CompileReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                        Message* message) {
  if (auto* choice = dynamic_cast<v1::OptimizerChoice*>(message)) {
    return ReadOptimizerChoice(node, path, choice);
  }
  return ClassReader::ReadMessage(node, path, message);
}

absl::Status CompileReader::Read(const YAML::Node& node, const std::string& path,
                                 v1::CompileSpec* compile) {
  COHORT_ASSIGN_OR_RETURN(
      const auto entries,
      Entries(node, "`compile`", "compile: {loss: mean_squared_error, optimizer: adam}"));
  if (Gives(entries, "optimizers")) {
    if (Gives(entries, "optimizer")) {
      return Error(LineOf(node), "`compile` has either `optimizer` or `optimizers`");
    }
    compile->clear_optimizer_class();  // the default
    compile->clear_sparse_update();
  }
  COHORT_RETURN_IF_ERROR(ReadCompileOfKeras(entries, compile));
  bool from_logits = false;
  const Entry* weights = nullptr;
  const Entry* weighted_metrics = nullptr;  // named after the others
  for (const Entry& entry : entries) {
    const std::string key_path = JoinKeys(path, entry.key);
    Note(key_path, entry.line);
    if (entry.value.IsNull()) continue;  // the default
    if (entry.key == "loss") {
      COHORT_RETURN_IF_ERROR(ReadLoss(entry, key_path, compile));
    } else if (entry.key == "loss_weights") {
      weights = &entry;
    } else if (entry.key == "from_logits") {
      COHORT_ASSIGN_OR_RETURN(from_logits, Boolean(entry.value, key_path));
    } else if (entry.key == "metrics") {
      COHORT_RETURN_IF_ERROR(ReadMetrics(entry, key_path, false, compile));
    } else if (entry.key == "weighted_metrics") {
      weighted_metrics = &entry;
    } else if (entry.key == "optimizer") {
      COHORT_RETURN_IF_ERROR(ReadOptimizer(entry.value, key_path,
                                           compile->mutable_optimizer_class(),
                                           compile->mutable_sparse_update()));
    } else if (entry.key == "optimizers") {
      COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, compile));
      if (compile->optimizers().empty()) {
        return Error(entry.line,
                     "`{}` must have at least one item; for example `optimizers: [{{variables: "
                     "\"*\", optimizer: adam}}]`",
                     key_path);
      }
    } else {
      return UnknownKey(entry.line, entry.key, "`compile`",
                        {"loss", "loss_weights", "from_logits", "metrics", "weighted_metrics",
                         "optimizer", "optimizers"});
    }
  }
  if (weighted_metrics != nullptr) {
    COHORT_RETURN_IF_ERROR(
        ReadMetrics(*weighted_metrics, path + ".weighted_metrics", true, compile));
  } else if (keras_json_ != nullptr) {
    COHORT_RETURN_IF_ERROR(keras_json_->SetWeightedMetrics(outputs_, compile));
  }
  if (weights != nullptr) {
    COHORT_RETURN_IF_ERROR(ReadLossWeights(*weights, path + ".loss_weights", compile));
  } else if (keras_json_ != nullptr) {
    COHORT_RETURN_IF_ERROR(keras_json_->SetLossWeights(outputs_, compile));
  }
  // The short form of {BinaryCrossentropy: {from_logits: true}}. Losses without the argument ignore
  // it.
  for (v1::OutputLoss& loss : *compile->mutable_losses()) {
    auto* arguments = loss.mutable_loss_class()->mutable_config();
    if (from_logits && arguments->contains("from_logits")) {
      (*arguments)["from_logits"] = ConfigOf(true);
    }
  }
  if (compile->losses_size() == 1 && compile->losses(0).weight() == 1) {
    *compile->mutable_loss_class() = compile->losses(0).loss_class();
    compile->clear_losses();
  }
  return absl::OkStatus();
}

bool CompileReader::Gives(const std::vector<Entry>& entries, std::string_view key) {
  return std::any_of(entries.begin(), entries.end(), [key](const Entry& entry) {
    return entry.key == key && !entry.value.IsNull();
  });
}

absl::Status CompileReader::ReadCompileOfKeras(const std::vector<Entry>& entries,
                                               v1::CompileSpec* compile) {
  if (keras_json_ == nullptr) return absl::OkStatus();
  if (!Gives(entries, "loss")) COHORT_RETURN_IF_ERROR(keras_json_->SetLoss(outputs_, compile));
  if (!Gives(entries, "metrics"))
    COHORT_RETURN_IF_ERROR(keras_json_->SetMetrics(outputs_, compile));
  if (Gives(entries, "optimizer") || Gives(entries, "optimizers")) return absl::OkStatus();
  return keras_json_->SetOptimizer(compile);
}

// ------------------------------------------------------------------ by output

absl::Status CompileReader::ReadLoss(const Entry& entry, const std::string& path,
                                     v1::CompileSpec* compile) {
  const bool by_output = entry.value.IsSequence() || IsByOutput(entry.value, Losses(), outputs_);
  std::vector<YAML::Node> values(outputs_.size(), entry.value);
  if (by_output) {
    COHORT_ASSIGN_OR_RETURN(std::vector<YAML::Node> read, ByOutput(entry, path, outputs_));
    values.swap(read);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (values[i].IsNull()) return Error(entry.line, "the output \"{}\" has no loss", outputs_[i]);
    v1::OutputLoss* loss = compile->add_losses();
    loss->set_output(outputs_[i]);
    loss->set_weight(1);
    COHORT_RETURN_IF_ERROR(ReadClass(values[i], by_output ? fmt::format("{}[{}]", path, i) : path,
                                     Losses(), loss->mutable_loss_class()));
  }
  return absl::OkStatus();
}

absl::Status CompileReader::ReadLossWeights(const Entry& entry, const std::string& path,
                                            v1::CompileSpec* compile) {
  std::vector<YAML::Node> values;
  if (outputs_.size() == 1 && entry.value.IsScalar()) {
    values.push_back(entry.value);
  } else {
    COHORT_ASSIGN_OR_RETURN(values, ByOutput(entry, path, outputs_));
  }
  for (int i = 0; i < compile->losses_size(); ++i) {
    const YAML::Node& value = values[static_cast<size_t>(i)];
    if (value.IsNull()) continue;
    COHORT_ASSIGN_OR_RETURN(const double weight, Number(value, path));
    compile->mutable_losses(i)->set_weight(weight);
  }
  return absl::OkStatus();
}

absl::Status CompileReader::ReadMetric(const YAML::Node& node, const std::string& output,
                                       bool weighted, v1::CompileSpec* compile) {
  const std::string path = fmt::format("compile.metrics[{}]", compile->metric_classes_size());
  Note(path, LineOf(node));
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  v1::ClassConfig config;
  if (IsChosenAccuracy(text)) {
    config.set_class_name("accuracy");
    COHORT_ASSIGN_OR_RETURN(config, CompleteConfig(Metrics(), config));
  } else {
    COHORT_RETURN_IF_ERROR(ReadClass(node, path, Metrics(), &config));
  }
  AddOutputMetric(std::move(config), text, output, weighted, compile);
  return absl::OkStatus();
}

absl::Status CompileReader::ReadMetrics(const Entry& entry, const std::string& path, bool weighted,
                                        v1::CompileSpec* compile) {
  const bool by_output = IsByOutput(entry.value, Metrics(), outputs_);
  if (outputs_.size() == 1 && !by_output) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
    for (const YAML::Node& item : items) {
      COHORT_RETURN_IF_ERROR(ReadMetric(item, "", weighted, compile));
    }
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> values, ByOutput(entry, path, outputs_));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string output = outputs_.size() == 1 ? "" : outputs_[i];
    if (values[i].IsNull()) continue;
    if (!values[i].IsSequence()) {
      COHORT_RETURN_IF_ERROR(ReadMetric(values[i], output, weighted, compile));
      continue;
    }
    COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(values[i], path));
    for (const YAML::Node& item : items) {
      COHORT_RETURN_IF_ERROR(ReadMetric(item, output, weighted, compile));
    }
  }
  return absl::OkStatus();
}

// ------------------------------------------------------------------ optimizers

absl::Status CompileReader::ReadOptimizer(const YAML::Node& node, const std::string& path,
                                          v1::ClassConfig* config, std::string* sparse_update) {
  COHORT_ASSIGN_OR_RETURN(ClassNode read, ReadClassNode(node, path, OptimizerSchemas()));
  if (read.name == "MultiOptimizer") {
    return Error(read.line,
                 "MultiOptimizer is the key `optimizers`: `optimizers: [{{variables: \"wide/*\", "
                 "optimizer: ftrl}}, {{variables: \"*\", optimizer: adam}}]`");
  }
  const auto schema = OptimizerSchemas().FindSchema(read.name);
  if (!schema.ok()) return AtLine(read.line, schema.status());
  if (const auto sparse = read.Take("sparse_update"); sparse && !sparse->value.IsNull()) {
    Note(path + ".sparse_update", sparse->line);
    COHORT_ASSIGN_OR_RETURN(*sparse_update, Text(sparse->value, path + ".sparse_update"));
  }
  return ReadArguments(read, path, **schema, config);
}

absl::Status CompileReader::ReadOptimizerChoice(const YAML::Node& node, const std::string& path,
                                                v1::OptimizerChoice* choice) {
  const std::string what = fmt::format("`{}`", path);
  COHORT_ASSIGN_OR_RETURN(const auto entries,
                          Entries(node, what, "optimizers: [{variables: \"*\", optimizer: adam}]"));
  choice->set_sparse_update("keras");
  for (const Entry& entry : entries) {
    const std::string key_path = JoinKeys(path, entry.key);
    Note(key_path, entry.line);
    if (entry.value.IsNull()) continue;
    if (entry.key == "variables") {
      COHORT_ASSIGN_OR_RETURN(*choice->mutable_variables(), Text(entry.value, key_path));
    } else if (entry.key == "optimizer") {
      COHORT_RETURN_IF_ERROR(ReadOptimizer(entry.value, key_path, choice->mutable_optimizer_class(),
                                           choice->mutable_sparse_update()));
    } else {
      return UnknownKey(entry.line, entry.key, what, {"variables", "optimizer"});
    }
  }
  return absl::OkStatus();
}

bool IsChosenAccuracy(const std::string& text) { return absl::EqualsIgnoreCase(text, "accuracy"); }

void AddOutputMetric(v1::ClassConfig config, const std::string& given, const std::string& output,
                     bool weighted, v1::CompileSpec* compile) {
  const std::string prefix = output.empty() ? "" : output + "_";
  std::string name = given.empty() ? Config(config).String("name") : given;
  const auto& metrics = compile->metric_classes();
  const bool taken =
      weighted && std::any_of(metrics.begin(), metrics.end(), [&](const v1::MetricSpec& other) {
        return other.name() == prefix + name;
      });
  if (taken) name = "weighted_" + name;
  v1::MetricSpec* const metric = compile->add_metric_classes();
  metric->set_name(prefix + name);
  metric->set_weighted(weighted);
  metric->set_output(output);
  *metric->mutable_metric_class() = std::move(config);
}

}  // namespace cohort
