#include "deploy/launcher/check_job.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/kernels/device_coverage.h"
#include "common/model/batch_text.h"
#include "common/model/data_check.h"
#include "common/model/device_check.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "common/model/summary.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/layout_check.h"
#include "common/placement/message_size.h"
#include "common/placement/partitioner.h"
#include "common/placement/placement.h"
#include "common/placement/shard_plan.h"
#include "common/tensor/table_rows.h"
#include "common/weights/initial_weights.h"
#include "deploy/launcher/data_sample.h"
#include "deploy/launcher/job_warnings.h"
#include "deploy/launcher/local_cluster.h"

namespace cohort {
namespace {

// If a table is this many times longer than a batch, updating only the batch's rows is faster.
constexpr int64_t kRowsPerBatchThatPay = 16;

struct JobData {
  std::vector<FeatureType> features;  // the columns that the model sees
  // Null if the data is not here.
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
  std::vector<std::string> missing;  // "training data: not checked, because ..."
};

// Words that a transform turns into numbers of another name need no hint.
void DropTransformed(const v1::DatasetSpec& spec, DataSample* sample) {
  std::set<std::string> read;
  for (const v1::ColumnTransform& transform : spec.transforms()) {
    read.insert(transform.column());
    read.insert(transform.columns().begin(), transform.columns().end());
  }
  std::erase_if(sample->unused, [&](const auto& column) { return read.contains(column.first); });
}

// "loss: MeanSquaredError; optimizer: Adam, learning rate 0.001; metrics: mae".
std::string CompileText(const v1::CompileSpec& compile,
                        const std::vector<OptimizerFacts>& optimizers) {
  std::vector<std::string> losses, optimizer_texts, metrics;
  if (compile.has_loss_class()) losses.push_back(compile.loss_class().class_name());
  for (const v1::OutputLoss& loss : compile.losses()) {
    std::string text = loss.loss_class().class_name();
    if (!loss.output().empty()) text = loss.output() + " " + text;
    if (loss.weight() != 1) text += fmt::format(" x {:g}", loss.weight());
    losses.push_back(std::move(text));
  }
  for (const OptimizerFacts& o : optimizers) {
    std::string text = o.name;
    if (o.learning_rate > 0) text += fmt::format(", learning rate {:g}", o.learning_rate);
    optimizer_texts.push_back(std::move(text));
  }
  for (const v1::MetricSpec& metric : compile.metric_classes()) metrics.push_back(metric.name());
  return fmt::format("loss: {}; optimizer: {}; metrics: {}\n", fmt::join(losses, ", "),
                     fmt::join(optimizer_texts, "; "),
                     metrics.empty() ? "none" : fmt::format("{}", fmt::join(metrics, ", ")));
}

// Adds the reason why data was not read to `opened`, if it is not here.
bool IsMissing(const absl::Status& status, std::string_view which, JobData* opened,
               std::string* text) {
  if (!absl::IsNotFound(status)) return false;
  const absl::string_view why = status.message();
  opened->missing.push_back(fmt::format("{} data: not checked, because it is not here: {}", which,
                                        std::string_view(why.data(), why.size())));
  *text += opened->missing.back() + "\n";
  return true;
}

// The weights that balance the classes; "" if the job asks for none.
std::string ClassWeightText(const v1::FitSpec& fit) {
  if (!fit.balance_classes()) return "";
  constexpr size_t kMostShown = 20;
  const std::map<int64_t, double> weights(fit.class_weight().begin(), fit.class_weight().end());
  std::vector<std::string> shown;
  for (const auto& [label, weight] : weights) {
    if (shown.size() < kMostShown) shown.push_back(fmt::format("{}: {:.6g}", label, weight));
  }
  if (weights.size() > shown.size())
    shown.push_back(fmt::format("... ({} classes)", weights.size()));
  return fmt::format("class weights: {{{}}}\n", fmt::join(shown, ", "));
}

// Adds a line about the origin of the data.
absl::StatusOr<JobData> OpenData(const CheckOptions& options, JobFile* file, std::string* text) {
  v1::JobSpec* const job = &file->spec;
  const DataOptions data{options.data_dir};
  JobData opened;
  auto train = OpenTraining(data, job);
  if (IsMissing(train.status(), "training", &opened, text)) {
    const auto features = DeclaredFeatures(*job);
    if (!features.ok()) return Annotate(features.status(), opened.missing[0]);
    opened.features = *features;
    return opened;
  }
  COHORT_RETURN_IF_ERROR(Annotate(train.status(), file->lines.Where("data.train")));
  opened.train = *std::move(train);
  *text += fmt::format("training data: {} records\n",
                       WithThousands(static_cast<int64_t>(opened.train->num_records())));
  for (const std::string& warning : opened.train->warnings()) {
    *text += fmt::format("warning: training data: {}\n", warning);
  }
  *text += ClassWeightText(job->fit());
  COHORT_RETURN_IF_ERROR(CheckInputs(*file, *opened.train));
  opened.features = opened.train->features();
  if (!job->data().has_validation()) return opened;
  auto validation = Dataset::Open(job->data().validation(), data);
  if (IsMissing(validation.status(), "validation", &opened, text)) return opened;
  COHORT_RETURN_IF_ERROR(Annotate(validation.status(), file->lines.Where("data.validation")));
  opened.validation = *std::move(validation);
  *text += fmt::format("validation data: {} records\n",
                       WithThousands(static_cast<int64_t>(opened.validation->num_records())));
  for (const std::string& warning : opened.validation->warnings()) {
    *text += fmt::format("warning: validation data: {}\n", warning);
  }
  return opened;
}

// The line about the initial weights; "" if the job has none.
absl::StatusOr<std::string> InitialWeightsText(const JobFile& job, const BuiltModel& model) {
  if (!job.spec.has_initial_weights()) return std::string();
  const auto weights =
      FindInitialWeights(job.spec.initial_weights(), job.lines.file, model.variables, job.layers);
  COHORT_RETURN_IF_ERROR(Annotate(weights.status(), job.lines.Where("initial_weights")));
  return fmt::format("initial weights: {}\n", weights->Text());
}

absl::StatusOr<std::string> LazyHints(const BuiltModel& model, const v1::Layout& layout,
                                      int64_t batch_size) {
  COHORT_ASSIGN_OR_RETURN(const auto rules, LayoutRules::Create(layout));
  std::string hints;
  for (const v1::VariableSpec& variable : model.variables) {
    const int64_t rows = VariableRows(variable);
    if (IsTable(variable.dims())) continue;  // only its rows that exist
    if (!variable.row_reads() || rows < kRowsPerBatchThatPay * batch_size) continue;
    const OptimizerRule* const rule = rules->Find(variable);
    if (rule == nullptr || rule->touches_only_keys()) continue;
    hints += fmt::format(
        "{}: {} moves all {} rows in every step, as Keras does; `sparse_update: lazy` would touch "
        "only "
        "the rows of a batch\n",
        variable.name(), model.optimizers[variable.optimizer()].rule().class_name(),
        WithThousands(rows));
  }
  return hints;
}

// The memory of a row of each embedding: "memory of a row: 128 bytes, of which 64 of slots (a, b)".
std::string RowMemoryText(const BuiltModel& model, const LayoutRules& rules) {
  constexpr size_t kMostNamed = 4;
  std::map<std::pair<size_t, size_t>, std::vector<std::string>> names;  // by both numbers
  bool tables = false;
  for (const v1::VariableSpec& variable : model.variables) {
    if (!variable.row_reads()) continue;
    const size_t values = RowBytes(variable, nullptr);
    const size_t all = RowBytes(variable, rules.Find(variable));
    names[{all, all - values}].push_back(variable.name());
    tables = tables || IsTable(variable.dims());
  }
  std::string text;
  for (const auto& [bytes, variables] : names) {
    const size_t named = std::min(kMostNamed, variables.size());
    text += fmt::format(
        "memory of a row: {} bytes, of which {} of slots ({}{})\n", bytes.first, bytes.second,
        fmt::join(std::span(variables).first(named), ", "),
        named == variables.size() ? "" : fmt::format(" and {} more", variables.size() - named));
  }
  if (tables) text += "a row of a table without bounds takes about 35 bytes more, to be found\n";
  return text;
}

// The terms of the largest server's memory (docs/operations.md).
absl::StatusOr<std::string> ServerMemoryText(const v1::Layout& layout, int servers,
                                             const v1::StrategySpec& strategy) {
  COHORT_ASSIGN_OR_RETURN(const auto rules, LayoutRules::Create(layout));
  double all = 0;
  double values = 0;
  for (int ps = 0; ps < servers; ++ps) {
    const auto number = static_cast<uint32_t>(ps);
    const double bytes =
        BytesOfServer(layout, number, [&](const v1::VariableSpec& variable) -> size_t {
          return RowBytes(variable, rules->Find(variable));
        });
    if (bytes <= all) continue;
    all = bytes;
    values = BytesOfServer(layout, number, [](const v1::VariableSpec& variable) -> size_t {
      return RowBytes(variable, nullptr);
    });
  }
  const auto size = [](double bytes) { return FormatBytes(static_cast<int64_t>(bytes)); };
  std::string text = fmt::format(
      "memory of the largest server: {} of values and slots, at most {} for a snapshot; per worker "
      "up to {} for its push and {} for its pull",
      size(all), size(std::max(all / 8, 32.0 * (1 << 20))), size(values), size(values));
  if (const uint32_t closures = strategy.closures_per_step(); closures > 2) {
    text += fmt::format("; up to {} for gradients that come early", size(values * (closures - 2)));
  }
  text += ". What exceeds its part of the memory waits\n";
  for (const v1::VariableSpec& variable : layout.variables()) {
    if (!IsTable(variable.dims())) continue;
    double row = static_cast<double>(SizeOf(static_cast<DType>(variable.dtype())));
    for (int i = 1; i < variable.dims_size(); ++i) row *= static_cast<double>(variable.dims(i));
    const OptimizerRule* const rule = rules->Find(variable);
    row *= 1 + static_cast<double>(rule == nullptr ? 0 : rule->slots().size());
    text += fmt::format(
        "the table {} has no bounds: {}, at {} of values and slots for each row\n",
        PrintableLine(variable.name()),
        variable.table().max_rows() > 0
            ? fmt::format("the memory counts its `max_rows` of {}",
                          WithThousands(static_cast<int64_t>(variable.table().max_rows())))
            : "the memory does not count it",
        size(row));
  }
  return text;
}

}  // namespace

absl::Status CheckedJob::Outcome(bool strict) const {
  if (!strict || warnings.empty()) return absl::OkStatus();
  return InvalidArgument("--strict: there {} {} warning{}, see above",
                         warnings.size() == 1 ? "is" : "are", warnings.size(),
                         warnings.size() == 1 ? "" : "s");
}

absl::StatusOr<CheckedJob> CheckJob(const CheckOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("--ps", options.ps, 1, kMostTasks));
  COHORT_RETURN_IF_ERROR(CheckBetween("--threads", options.threads, 1, kMostThreads));
  COHORT_RETURN_IF_ERROR(CheckBetween("--workers", options.workers, 0, kMostTasks));
  COHORT_ASSIGN_OR_RETURN(JobFile job, ReadJobFile(options.job));
  if (options.workers > 0) {
    std::set<int> workers;
    for (int i = 0; i < options.workers; ++i) workers.insert(i);
    COHORT_RETURN_IF_ERROR(CheckDeviceWorkers(job.spec, job.lines, workers));
  }
  std::string data_text;
  COHORT_ASSIGN_OR_RETURN(const JobData data, OpenData(options, &job, &data_text));
  COHORT_ASSIGN_OR_RETURN(const BuiltModel model, BuildModel(job.spec, data.features, &job.lines));
  if (data.train != nullptr) {
    COHORT_RETURN_IF_ERROR(StepsPerEpoch(job, data.train->num_records()).status());
  }
  if (data.validation != nullptr) {
    COHORT_RETURN_IF_ERROR(CheckValidation(job, model, *data.train, *data.validation));
  }
  std::optional<DataSample> sample;
  if (data.train != nullptr) {
    COHORT_ASSIGN_OR_RETURN(sample, SampleData(*data.train, job.spec.data().batch_size()));
    DropTransformed(job.spec.data().train(), &*sample);
    data_text += "\n" + sample->Text() + "\n";
  }
  COHORT_ASSIGN_OR_RETURN(const JobFacts facts,
                          FactsOf(job.spec, job.lines, model.predict, data.features,
                                  sample.has_value() ? &*sample : nullptr));
  CheckedJob checked;
  checked.warnings = data.missing;
  const std::vector<std::string> found = WarningsOf(facts);
  checked.warnings.insert(checked.warnings.end(), found.begin(), found.end());
  COHORT_ASSIGN_OR_RETURN(const std::string weights_text, InitialWeightsText(job, model));
  PlacementOptions placement;
  placement.strategy = job.spec.strategy().placement();
  placement.cores.assign(static_cast<size_t>(options.ps), options.threads);
  placement.copies = job.spec.strategy().replicas() == 2;
  COHORT_ASSIGN_OR_RETURN(
      const v1::Layout layout,
      MakeLayout(model.variables, job.spec.strategy().partitioner(), model.optimizers, placement));
  const std::array programs = {model.train, model.eval};
  COHORT_RETURN_IF_ERROR(CheckMessageSizes(layout, programs));
  COHORT_ASSIGN_OR_RETURN(
      const std::string hints,
      LazyHints(model, layout, static_cast<int64_t>(job.spec.data().batch_size())));
  COHORT_ASSIGN_OR_RETURN(const std::string memory,
                          ServerMemoryText(layout, options.ps, job.spec.strategy()));
  COHORT_ASSIGN_OR_RETURN(const auto rules, LayoutRules::Create(layout));
  const std::string row_memory = RowMemoryText(model, *rules);
  checked.text = fmt::format(
      "{}\n{}{}{}{}\n{}\n\nshard plan for {} ps:\n{}{}{}{}{}", FormatSummary(model.summary),
      CompileText(job.spec.compile(), facts.optimizers), data_text, weights_text,
      BatchText(job.spec, job.spec.strategy().closures_per_step()), DeviceCoverageText(programs),
      options.ps, ShardPlanText(layout), MessageSizeText(layout, programs), memory, row_memory,
      hints);
  if (!checked.warnings.empty()) checked.text += "\n";
  for (const std::string& warning : checked.warnings) {
    checked.text += fmt::format("warning: {}\n", warning);
  }
  return checked;
}

std::string IgnoredDirectories(const LocalOptions& options) {
  std::error_code ignored;
  if (!options.run_dir.empty() || !std::filesystem::is_regular_file(options.job, ignored))
    return "";
  const absl::StatusOr<JobFile> job = ReadJobFile(options.job);
  if (!job.ok()) return "";  // the chief reports the error
  std::vector<std::string_view> keys;
  if (options.checkpoint_dir.empty()) keys.push_back("checkpoint.directory");
  if (options.log_dir.empty()) keys.push_back("report.log_dir");
  std::erase_if(keys, [&](std::string_view key) { return !job->lines.keys.contains(key); });
  if (keys.empty()) return "";
  return fmt::format("`cohort local` ignores {} of {}; pass --run_dir to continue a run\n",
                     fmt::join(keys, " and "), options.job);
}

absl::Status CheckForEvaluator(const std::string& job) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(job, ignored)) return absl::OkStatus();
  const absl::StatusOr<JobFile> read = ReadJobFile(job);
  if (!read.ok() || read->spec.data().has_validation()) return absl::OkStatus();
  return InvalidArgument(
      "{}: the job has no validation set, so there is nothing for --evaluator to "
      "do: give it data.validation, or leave --evaluator out",
      read->lines.Where("data"));
}

}  // namespace cohort
