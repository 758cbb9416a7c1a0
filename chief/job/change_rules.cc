#include "chief/job/change_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/data/source_class.h"

namespace cohort {
namespace {

constexpr auto kRules = std::to_array<ChangeRule>({
    {"fit.epochs", Change::kContinues,
     "A job that has done as many ends with an error (78), unless --finished_ok is given."},
    {"fit.callbacks", Change::kContinues,
     "The history of the epochs is in the checkpoint, so other callbacks see all of it."},
    {"fit.max_steps", Change::kContinues,
     "A job that has done as many ends as above. With more it continues inside its epoch."},
    {"fit.steps_per_execution, fit.validation_freq, fit.validation_epochs, fit.validation_steps",
     Change::kContinues, "Closures that have started keep their number of steps."},
    {"fit.validation_split", Change::kOtherJob, "The job would train with other records."},
    {"data.batch_size, data.global_batch_size, fit.steps_per_epoch", Change::kStepsOfEpoch,
     "The steps of an epoch change, and its places with them. Independent readers start again."},
    {"compile.metrics", Change::kAtEpochEnd, "A metric covers whole epochs."},
    {"compile.optimizer, compile.optimizers.optimizer", Change::kContinues,
     "The learning rate and the other arguments apply from the checkpoint on."},
    {"compile.optimizer.class_name, compile.optimizer.slots, compile.optimizers, "
     "compile.optimizers.optimizer.class_name",
     Change::kFromWeights,
     "The checkpoint lacks the state of another optimizer, or of a first momentum, `centered` or "
     "`amsgrad`."},
    {"compile.loss, fit.class_weight, fit.balance_classes", Change::kFromWeights,
     "The job optimizes another value."},
    {"initial_weights", Change::kOtherJob,
     "The training would have begun with other values. After the first checkpoint the file is not "
     "read."},
    {"mixed_precision", Change::kContinues,
     "Variables and checkpoints are float32. Without another value, the loss scale continues, "
     "too."},
    {"gradient_dtype", Change::kContinues, "Variables and checkpoints are float32."},
    {"servers", Change::kContinues, "A checkpoint restores onto any number of servers."},
    {"strategy", Change::kContinues,
     "Mode, closures per step, pull_ahead, hot rows, partitioner, placement, rebalance, timeouts "
     "and closures in flight."},
    {"checkpoint, evaluate, report, model.name", Change::kContinues,
     "They do not change what is trained."},
    {"data.validation", Change::kContinues,
     "`keep_best` compares only figures of the same validation set."},
    {"data.train.prefetch, data.train.csv.url, data.train.csv.sha256, data.train.idx.url, "
     "data.train.idx.sha256_images, data.train.idx.sha256_labels",
     Change::kContinues, "They do not change the batches."},
    {"data.stream", Change::kContinues, "It says how files are found, and when they end."},
    {"data.train, data.visitation, data.block_size", Change::kOtherJob,
     "An epoch would use some records twice and others never."},
    {"model.devices, model.layers.device", Change::kContinues,
     "Devices compute the same values; those of another kind round otherwise."},
    {"model.layers.min_count, model.layers.admission_probability, model.layers.evict_after_steps, "
     "model.layers.evict_below_l2, model.layers.max_rows",
     Change::kContinues,
     "Updates after the checkpoint make and remove rows of tables without bounds by the new "
     "rules."},
    {"model, variables", Change::kFromWeights,
     "The checkpoint has other variables. Those with the same name and shape keep their values."},
    {"name, seed", Change::kOtherJob, "They identify the job and all of its random numbers."},
});

std::string_view TextOf(Change change) {
  switch (change) {
    case Change::kContinues:
      return "continues";
    case Change::kAtEpochEnd:
      return "continues at the end of an epoch";
    case Change::kStepsOfEpoch:
      return "continues at the end of an epoch; inside one, starts from the weights";
    case Change::kFromWeights:
      return "starts from the weights";
    case Change::kOtherJob:
      break;
  }
  return "another job";
}

std::vector<std::string_view> KeysOf(const ChangeRule& rule) {
  constexpr std::string_view kSeparator = ", ";
  std::vector<std::string_view> keys;
  std::string_view rest = rule.keys;
  for (size_t end = 0; (end = rest.find(kSeparator)) != std::string_view::npos;) {
    keys.push_back(rest.substr(0, end));
    rest.remove_prefix(end + kSeparator.size());
  }
  keys.push_back(rest);
  return keys;
}

// Removes the positions in lists: "model.layers[1].units" -> "model.layers.units".
std::string WithoutPositions(std::string_view key) {
  std::string result;
  bool inside = false;
  for (const char c : key) {
    if (c == '[') inside = true;
    if (!inside) result += c;
    if (c == ']') inside = false;
  }
  return result;
}

// True if `key` equals `prefix` or is below it.
bool IsIn(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return false;
  return key.size() == prefix.size() || key[prefix.size()] == '.';
}

// True for an argument of a source that does not determine the records, such as a download address.
bool IsNoRecordArgument(std::string_view key) {
  constexpr std::string_view kTrain = "data.train.";
  const size_t dot = key.find_last_of('.');
  if (!key.starts_with(kTrain) || dot < kTrain.size()) return false;
  const auto source = Sources().Find(key.substr(kTrain.size(), dot - kTrain.size()));
  if (!source.ok()) return false;
  const std::vector<std::string>& arguments = (*source)->no_record_arguments;
  return std::find(arguments.begin(), arguments.end(), key.substr(dot + 1)) != arguments.end();
}

}  // namespace

std::span<const ChangeRule> ChangeRules() { return kRules; }

Change ChangeOf(std::string_view key) {
  const std::string place = WithoutPositions(key);
  size_t longest = 0;
  Change change = Change::kOtherJob;
  for (const ChangeRule& rule : kRules) {
    for (const std::string_view prefix : KeysOf(rule)) {
      if (prefix.size() <= longest || !IsIn(place, prefix)) continue;
      longest = prefix.size();
      change = rule.change;
    }
  }
  return change == Change::kOtherJob && IsNoRecordArgument(place) ? Change::kContinues : change;
}

std::string ChangeTable() {
  std::string table = "| key | with another value | why |\n|---|---|---|\n";
  for (const ChangeRule& rule : kRules) {
    std::string keys;
    for (const std::string_view key : KeysOf(rule)) {
      keys += fmt::format("{}`{}`", keys.empty() ? "" : ", ", key);
    }
    table += fmt::format("| {} | {} | {} |\n", keys, TextOf(rule.change), rule.why);
  }
  return table;
}

}  // namespace cohort
