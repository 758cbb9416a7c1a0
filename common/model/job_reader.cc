#include "common/model/job_reader.h"

#include <absl/strings/numbers.h>

#include <optional>

#include "common/model/callbacks/callback.h"
#include "common/model/compile_reader.h"
#include "common/model/data_check.h"
#include "common/model/dataset_reader.h"
#include "common/model/job_defaults.h"
#include "common/model/partitioners.h"
#include "proto/job.pb.h"

namespace cohort {

absl::Status JobReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                    Message* message) {
  if (auto* job = dynamic_cast<v1::JobSpec*>(message)) return ReadJob(node, job);
  if (auto* model = dynamic_cast<v1::ModelSpec*>(message)) return model_.Read(node, path, model);
  if (auto* compile = dynamic_cast<v1::CompileSpec*>(message)) {
    return CompileReader(lines(), model_.outputs(), model_.keras_json()).Read(node, path, compile);
  }
  if (dynamic_cast<v1::DatasetSpec*>(message) != nullptr) {
    return DatasetReader(lines(), model_.outputs()).ReadMessage(node, path, message);
  }
  if (auto* fit = dynamic_cast<v1::FitSpec*>(message); fit != nullptr && node.IsMap()) {
    return ReadFit(node, path, fit);
  }
  if (auto* precision = dynamic_cast<v1::MixedPrecisionSpec*>(message)) {
    return ReadMixedPrecision(node, path, precision);
  }
  if (auto* partitioner = dynamic_cast<v1::PartitionerSpec*>(message)) {
    return ReadPartitioner(node, path, partitioner);
  }
  return ClassReader::ReadMessage(node, path, message);
}

absl::Status JobReader::ReadJob(const YAML::Node& node, v1::JobSpec* job) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, "the job"));
  // The model first: the others may name its outputs. (Assigning a YAML::Node would change the node
  // that it had, so nothing is sorted.)
  std::vector<Entry> model, others;
  std::optional<Entry> from;
  bool compiles = false;
  for (const Entry& entry : entries) {
    if (entry.key == "init_from") {
      from.emplace(entry);
      continue;
    }
    (entry.key == "model" ? model : others).push_back(entry);
    compiles = compiles || (entry.key == "compile" && !entry.value.IsNull());
  }
  COHORT_RETURN_IF_ERROR(ReadEntries(model, "", job));
  COHORT_RETURN_IF_ERROR(ReadEntries(others, "", job));
  if (from.has_value()) COHORT_RETURN_IF_ERROR(ReadInitFrom(*from, job));
  if (!model_.traced().empty() && !job->has_initial_weights()) {
    job->mutable_initial_weights()->set_path(model_.traced());
  }
  if (compiles) return absl::OkStatus();
  return ReadMessage(YAML::Node(YAML::NodeType::Map), "compile", job->mutable_compile());
}

// Arguments of Keras' `fit` that are other keys of a job.
constexpr std::pair<std::string_view, std::string_view> kArgumentsElsewhere[] = {
    {"x", "`data.train`"},
    {"y", "`data.train.label`"},
    {"sample_weight", "`data.train.sample_weight`"},
    {"batch_size", "`data.batch_size`"},
    {"validation_batch_size", "`data.batch_size`, which validation has, too,"},
    {"validation_data", "`data.validation`"},
    {"shuffle", "`data.train.shuffle`"},
    {"verbose", "`report.every_steps`, the steps from one line to the next,"}};

absl::Status JobReader::ReadFit(const YAML::Node& node, const std::string& path, v1::FitSpec* fit) {
  SetReadingDefaults(path, fit);
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, fmt::format("`{}`", path)));
  std::vector<Entry> others;
  for (const Entry& entry : entries) {
    for (const auto& [argument, where] : kArgumentsElsewhere) {
      if (entry.key == argument) return Error(entry.line, "`fit.{}` is {} here", argument, where);
    }
    if (entry.key == "initial_epoch") {
      return Error(entry.line,
                   "`fit.initial_epoch` is not needed: a job continues from its newest checkpoint, "
                   "at the epoch where it was; `fit.epochs` counts all of them, as in Keras. A job "
                   "that begins with the weights of another one has `initial_weights`");
    }
    if (entry.key == "validation_epochs") {
      return Error(entry.line,
                   "epochs after which the job validates are written as a list: "
                   "`validation_freq: [1, 2, 10]`");
    }
    if (entry.key == "balance_classes") {
      return Error(entry.line, "weights that balance the classes are `class_weight: balanced`");
    }
    const bool freq = entry.key == "validation_freq" || entry.key == "validation_every_epochs";
    if (!freq) {
      others.push_back(entry);
    } else if (!entry.value.IsSequence()) {
      others.push_back(Entry{"validation_freq", entry.line, entry.value});
    } else {
      Note(JoinKeys(path, "validation_freq"), entry.line);
      COHORT_ASSIGN_OR_RETURN(const auto items, Items(entry.value, path));
      for (const YAML::Node& item : items) {
        COHORT_ASSIGN_OR_RETURN(const int64_t epoch, Integer(item, "fit.validation_freq"));
        if (epoch < 1) {
          return Error(entry.line, "`fit.validation_freq` has the epoch {}; they count from 1",
                       epoch);
        }
        fit->add_validation_epochs(static_cast<uint64_t>(epoch));
      }
    }
  }
  return ReadEntries(others, path, fit);
}

absl::Status JobReader::ReadField(const Entry& entry, const std::string& path, const Field* field,
                                  Message* message) {
  auto* const fit = dynamic_cast<v1::FitSpec*>(message);
  if (fit != nullptr && entry.key == "class_weight") return ReadClassWeight(entry, path, fit);
  if (fit == nullptr || entry.key != "callbacks" || entry.value.IsNull()) {
    return ClassReader::ReadField(entry, path, field, message);
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
  for (const YAML::Node& item : items) {
    const std::string item_path = fmt::format("{}[{}]", path, fit->callbacks_size());
    Note(item_path, LineOf(item));
    COHORT_RETURN_IF_ERROR(ReadClass(item, item_path, CallbackSchemas(), fit->add_callbacks()));
  }
  return absl::OkStatus();
}

// `init_from: CHECKPOINT` is the short form of `initial_weights` for another job: layers with other
// shapes, and those that the checkpoint lacks, begin with their initializers.
absl::Status JobReader::ReadInitFrom(const Entry& entry, v1::JobSpec* job) {
  if (job->has_initial_weights()) {
    return Error(entry.line, "`init_from` is the short form of `initial_weights`: leave out one");
  }
  Note("initial_weights", entry.line);
  Note("initial_weights.path", entry.line);
  v1::InitialWeightsSpec* const weights = job->mutable_initial_weights();
  COHORT_ASSIGN_OR_RETURN(*weights->mutable_path(), Text(entry.value, "init_from"));
  weights->set_skip_mismatch(true);
  return absl::OkStatus();
}

absl::Status JobReader::ReadClassWeight(const Entry& entry, const std::string& path,
                                        v1::FitSpec* fit) {
  if (entry.value.IsNull()) return absl::OkStatus();
  const std::string what = fmt::format("`{}`", path);
  if (entry.value.IsScalar()) {
    COHORT_ASSIGN_OR_RETURN(const std::string value, Text(entry.value, path));
    fit->set_balance_classes(value == "balanced");
    if (fit->balance_classes()) return absl::OkStatus();
    return Error(entry.line,
                 "{} is `balanced`, or a mapping such as `{{0: 1.0, 1: 3.5}}`, not \"{}\"", what,
                 value.substr(0, 60));
  }
  COHORT_ASSIGN_OR_RETURN(const auto entries,
                          Entries(entry.value, what, "class_weight: {0: 1.0, 1: 3.5}"));
  for (const Entry& item : entries) {
    int64_t label = -1;
    if (!absl::SimpleAtoi(item.key, &label) || label < 0 || label >= kMostWeightedClasses) {
      return Error(item.line, "{}: a class is a number of 0 to {}, not \"{}\"", what,
                   kMostWeightedClasses - 1, item.key.substr(0, 60));
    }
    COHORT_ASSIGN_OR_RETURN((*fit->mutable_class_weight())[label],
                            Number(item.value, JoinKeys(path, item.key)));
  }
  return absl::OkStatus();
}

// `mixed_precision: float16`, or a mapping with the loss scale.
absl::Status JobReader::ReadMixedPrecision(const YAML::Node& node, const std::string& path,
                                           v1::MixedPrecisionSpec* precision) {
  if (!node.IsScalar()) return ClassReader::ReadMessage(node, path, precision);
  SetReadingDefaults(path, precision);
  COHORT_ASSIGN_OR_RETURN(*precision->mutable_dtype(), Text(node, path));
  return absl::OkStatus();
}

absl::Status JobReader::ReadPartitioner(const YAML::Node& node, const std::string& path,
                                        v1::PartitionerSpec* partitioner) {
  v1::ClassConfig config;
  COHORT_RETURN_IF_ERROR(ReadClass(node, path, PartitionerSchemas(), &config));
  *partitioner = MakePartitioner(config);
  return absl::OkStatus();
}

}  // namespace cohort
