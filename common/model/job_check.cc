#include "common/model/job_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/suggest.h"
#include "common/data/dataset.h"
#include "common/data/source_class.h"
#include "common/graph/consistency_mode.h"
#include "common/graph/hot_rows.h"
#include "common/graph/pull_ahead.h"
#include "common/model/callbacks/callback.h"
#include "common/model/metrics/metric.h"
#include "common/model/strategies.h"
#include "common/optimizers/optimizers.h"
#include "common/report/reporter.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kMaxNameBytes = 100;
constexpr uint64_t kLeastTableMemory = uint64_t{64} << 10;

class Checker {
 public:
  Checker(const v1::JobSpec& job, const JobLines& lines) : job_(job), lines_(lines) {}

  absl::Status Run() const {
    COHORT_RETURN_IF_ERROR(CheckName());
    COHORT_RETURN_IF_ERROR(CheckModel());
    COHORT_RETURN_IF_ERROR(CheckMixedPrecision());
    COHORT_RETURN_IF_ERROR(CheckGradientDtype());
    COHORT_RETURN_IF_ERROR(CheckCompile());
    COHORT_RETURN_IF_ERROR(CheckData());
    COHORT_RETURN_IF_ERROR(CheckFit());
    COHORT_RETURN_IF_ERROR(CheckStrategy());
    COHORT_RETURN_IF_ERROR(CheckInitialWeights());
    return CheckCheckpoint();
  }

 private:
  template <typename... Args>
  absl::Status Error(std::string_view path, fmt::format_string<Args...> format,
                     Args&&... args) const {
    return InvalidArgument("{}: {}", lines_.Where(path),
                           fmt::format(format, std::forward<Args>(args)...));
  }
  absl::Status At(std::string_view path, absl::Status status) const {
    return Annotate(std::move(status), lines_.Where(path));
  }
  absl::Status Positive(std::string_view path, uint64_t value) const {
    if (value > 0) return absl::OkStatus();
    return Error(path, "`{}` must be at least 1", path);
  }
  enum class Zero { kAllowed, kRefused };
  absl::Status Seconds(std::string_view path, double value, Zero zero) const {
    if (value < 0) return Error(path, "`{}` must not be negative", path);
    if (!IsValidSeconds(value)) {
      return Error(path, "`{}` must be at most {:.0f} seconds, not {}", path, kMaxSeconds, value);
    }
    if (value > 0 || zero == Zero::kAllowed) return absl::OkStatus();
    return Error(path, "`{}` must be more than 0", path);
  }

  // The name is used for directories and processes.
  absl::Status CheckName() const {
    const std::string& name = job_.name();
    if (name.size() > kMaxNameBytes) {
      return Error("name", "`name` has at most {} bytes, this one {}: \"{}...\"", kMaxNameBytes,
                   name.size(), name.substr(0, 40));
    }
    const bool plain =
        !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
                 c == '.';
        });
    if (plain) return absl::OkStatus();
    return Error("name", "`name` must be made of letters, digits, `_`, `-` and `.`, not \"{}\"",
                 name);
  }

  absl::Status CheckModel() const {
    if (job_.model().layers().empty()) {
      return Error("model",
                   "the job needs `model` with its layers: sequential, functional or keras_json");
    }
    const auto dtype = DTypeFromName(job_.model().dtype());
    if (dtype.has_value() && IsFloating(*dtype)) return absl::OkStatus();
    return Error("model.dtype", "`model.dtype` must be float32 or float64, not \"{}\"",
                 job_.model().dtype());
  }

  absl::Status CheckGradientDtype() const {
    if (job_.gradient_dtype().empty()) return absl::OkStatus();
    COHORT_RETURN_IF_ERROR(OneOf("gradient_dtype", job_.gradient_dtype(), {"float32", "bfloat16"}));
    if (job_.model().dtype() == "float32") return absl::OkStatus();
    return Error("gradient_dtype",
                 "`gradient_dtype: bfloat16` needs `model.dtype: float32`, not {}",
                 job_.model().dtype());
  }

  // The reader has removed what has no effect, so what the file gives is known by its lines.
  absl::Status CheckMixedPrecision() const {
    const v1::MixedPrecisionSpec& given = job_.mixed_precision();
    const bool is_mixed = job_.has_mixed_precision();
    if (is_mixed) {
      const char* const path = lines_.keys.contains("mixed_precision.dtype")
                                   ? "mixed_precision.dtype"
                                   : "mixed_precision";
      COHORT_RETURN_IF_ERROR(OneOf(path, given.dtype(), {"float32", "bfloat16", "float16"}));
    }
    if (is_mixed && job_.model().dtype() != "float32") {
      return Error("mixed_precision", "`mixed_precision` needs `model.dtype: float32`, not {}",
                   job_.model().dtype());
    }
    for (const char* key : {"loss_scale", "initial_scale", "dynamic_growth_steps"}) {
      const std::string path = fmt::format("mixed_precision.{}", key);
      if (!lines_.keys.contains(path)) continue;
      if (given.dtype() != "float16") {
        return Error(path, "`{}` applies to float16: only its gradients need a loss scale", path);
      }
      if (path != "mixed_precision.loss_scale" && given.loss_scale() != 0) {
        return Error(path, "`{}` applies to a dynamic loss scale: leave out `loss_scale`", path);
      }
    }
    if (given.dtype() != "float16") return absl::OkStatus();
    if (given.loss_scale() != 0) {
      return LossScaleInRange("mixed_precision.loss_scale", given.loss_scale());
    }
    COHORT_RETURN_IF_ERROR(
        Positive("mixed_precision.dynamic_growth_steps", given.dynamic_growth_steps()));
    return LossScaleInRange("mixed_precision.initial_scale", given.initial_scale());
  }

  absl::Status LossScaleInRange(std::string_view path, double scale) const {
    constexpr double kMostScale = 0x1p100;
    if (scale >= 1 && scale <= kMostScale) return absl::OkStatus();
    return Error(path, "`{}` must be at least 1 and at most 2^100, not {}", path, scale);
  }

  absl::Status CheckCompile() const {
    const v1::CompileSpec& compile = job_.compile();
    if (compile.loss_class().class_name().empty() && compile.losses().empty()) {
      return Error("compile",
                   "the job needs `compile.loss`; for example `loss: "
                   "mean_squared_error`");
    }
    std::set<std::string> seen = {"loss"};
    for (const v1::OutputLoss& loss : compile.losses()) {
      if (!std::isfinite(loss.weight()) || loss.weight() < 0) {
        return Error("compile.loss_weights", "`compile.loss_weights` must not be negative: {}",
                     loss.weight());
      }
      if (compile.losses_size() > 1) seen.insert(loss.output() + "_loss");
    }
    COHORT_RETURN_IF_ERROR(CheckMetricNames(std::move(seen)));
    if (compile.optimizers().empty()) {
      return CheckOptimizer(compile.optimizer_class(), compile.sparse_update(),
                            "compile.optimizer");
    }
    for (int i = 0; i < compile.optimizers_size(); ++i) {
      const v1::OptimizerChoice& choice = compile.optimizers(i);
      const std::string path = fmt::format("compile.optimizers[{}]", i);
      if (choice.variables().empty()) {
        return Error(path, "`{}` needs its `variables`, a pattern such as \"embedding/*\"", path);
      }
      if (!choice.has_optimizer_class()) return Error(path, "`{}` needs its `optimizer`", path);
      COHORT_RETURN_IF_ERROR(
          CheckOptimizer(choice.optimizer_class(), choice.sparse_update(), path + ".optimizer"));
    }
    return absl::OkStatus();
  }

  // `taken`: the names of the losses.
  absl::Status CheckMetricNames(std::set<std::string> taken) const {
    const std::set<std::string> losses = taken;
    const v1::CompileSpec& compile = job_.compile();
    for (int i = 0; i < compile.metric_classes_size(); ++i) {
      const std::string& name = compile.metric_classes(i).name();
      const std::string path = fmt::format("compile.metrics[{}]", i);
      if (losses.contains(name) || IsReportKey(name)) {
        return Error(path,
                     "a metric cannot have the name \"{}\", which is another key of the lines of "
                     "metrics.jsonl: give it another `name`",
                     name);
      }
      if (!taken.insert(name).second) return Error(path, "metric \"{}\" is given twice", name);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOptimizer(const v1::ClassConfig& config, const std::string& sparse_update,
                              const std::string& path) const {
    std::string argument;
    const absl::Status status = MakeOptimizer(config, sparse_update, &argument).status();
    return At(argument.empty() ? path : fmt::format("{}.{}", path, argument), status);
  }

  absl::Status CheckData() const {
    const v1::DataSpec& data = job_.data();
    COHORT_RETURN_IF_ERROR(Positive("data.batch_size", data.batch_size()));
    COHORT_RETURN_IF_ERROR(Positive("data.block_size", data.block_size()));
    if (data.batch_size() > (1u << 24)) {
      return Error("data.batch_size", "`data.batch_size` is too large: {}", data.batch_size());
    }
    COHORT_RETURN_IF_ERROR(CheckDataset(data.train(), "data.train"));
    COHORT_RETURN_IF_ERROR(CheckStream());
    if (data.has_validation()) {
      COHORT_RETURN_IF_ERROR(CheckDataset(data.validation(), "data.validation"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStream() const {
    const v1::DatasetSpec& train = job_.data().train();
    if (job_.data().visitation() != v1::STREAM) {
      if (!lines_.keys.contains("data.stream")) return absl::OkStatus();
      return Error("data.stream", "`data.stream` applies to `visitation: stream`");
    }
    COHORT_RETURN_IF_ERROR(
        Seconds("data.stream.poll_s", job_.data().stream().poll_s(), Zero::kRefused));
    const auto source = Sources().Find(train.source_class().class_name());
    if (source.ok() && !(*source)->split) {
      return Error("data.train",
                   "`visitation: stream` needs a source of files with records: csv, json_lines, "
                   "tfrecord or parquet, not {}",
                   (*source)->schema.name);
    }
    const Config source_config(train.source_class());
    const auto has = [&](const char* argument) {
      return source_config.Has(argument) && !source_config.IsNone(argument);
    };
    if (has("sha256")) return Error("data.train", "a stream has no `sha256`: it has many files");
    if (has("on_corrupt") && source_config.String("on_corrupt") == "skip") {
      return Error("data.train", "a stream reads each record: leave out `on_corrupt: skip`");
    }
    if (source.ok() && (*source)->schema.name == "json_lines" && !has("columns")) {
      return Error("data.train",
                   "a stream of json_lines needs `columns`: what every record has cannot be known "
                   "before the end");
    }
    for (const char* key :
         {"skip", "take", "filter", "repeat", "shuffle_buffer", "drop_remainder"}) {
      const std::string path = fmt::format("data.train.{}", key);
      if (!lines_.keys.contains(path)) continue;
      return Error(path, "a stream reads each record once: leave out `{}`", path);
    }
    for (const char* key : {"epochs", "validation_split", "class_weight"}) {
      const std::string path = fmt::format("fit.{}", key);
      if (!lines_.keys.contains(path)) continue;
      if (std::string_view(key) == "class_weight" && !job_.fit().balance_classes()) continue;
      return Error(path,
                   "a stream has no end: leave out `{}`; `fit.max_steps` and "
                   "`data.stream.end` end the training",
                   path);
    }
    return absl::OkStatus();
  }

  absl::Status CheckDataset(const v1::DatasetSpec& dataset, const std::string& path) const {
    if (!dataset.has_source_class()) {
      std::vector<std::string> names;
      for (const ClassSchema* schema : Sources().Schemas()) names.push_back(schema->name);
      return Error(path, "`{}` needs a source; there are {}", path, fmt::join(names, ", "));
    }
    if (LabelsOf(dataset).empty()) return Error(path, "`{}` needs its `label`, a column", path);
    return absl::OkStatus();
  }

  absl::Status CheckFit() const {
    const v1::FitSpec& fit = job_.fit();
    COHORT_RETURN_IF_ERROR(Positive("fit.epochs", fit.epochs()));
    COHORT_RETURN_IF_ERROR(Positive("fit.steps_per_execution", fit.steps_per_execution()));
    COHORT_RETURN_IF_ERROR(Positive("fit.validation_freq", fit.validation_freq()));
    const double split = fit.validation_split();
    if (!(split >= 0 && split < 1)) {
      return Error("fit.validation_split",
                   "`fit.validation_split` is {}; it is a share of the training records: 0 to 1",
                   split);
    }
    if (split > 0 && lines_.keys.contains("data.validation")) {
      return Error("fit.validation_split",
                   "the job has `data.validation`, and `fit.validation_split` makes another "
                   "validation set: leave out one of them");
    }
    const bool independent = job_.data().visitation() == v1::INDEPENDENT;
    COHORT_RETURN_IF_ERROR(CheckCallbacks());
    if (independent && fit.steps_per_epoch() == 0) {
      return Error("data.visitation",
                   "visitation independent has no end of its own: it needs `fit.steps_per_epoch`");
    }
    const bool stream = job_.data().visitation() == v1::STREAM;
    if (stream && fit.steps_per_epoch() == 0) {
      return Error(
          "data.visitation",
          "visitation stream has no epochs: it needs `fit.steps_per_epoch`, the steps of a "
          "window for metrics and validations");
    }
    if (!independent && !stream && fit.steps_per_epoch() != 0) {
      return Error("fit.steps_per_epoch",
                   "with visitation exactly_once the data ends the epoch: leave out "
                   "`steps_per_epoch`, or choose visitation independent; `max_steps` ends the "
                   "whole training");
    }
    return absl::OkStatus();
  }

  absl::Status CheckStrategy() const {
    const v1::StrategySpec& strategy = job_.strategy();
    const StrategyClass* const known = FindStrategy(strategy.name());
    if (known == nullptr) {
      return Error("strategy.name", "{}", NoStrategyText(strategy.name()));
    }
    if (known->replicas_own) COHORT_RETURN_IF_ERROR(CheckReplicas());
    if (strategy.elastic() && known->calls != OwnerCalls::kReplicas) {
      return Error("strategy.elastic", "`strategy.elastic` applies to {}",
                   DefaultStrategy(OwnerCalls::kReplicas).name);
    }
    if (strategy.replicas() > 2) {
      return Error("strategy.replicas", "`strategy.replicas` is 1 or 2, not {}",
                   strategy.replicas());
    }
    if (strategy.replicas() == 2 && strategy.name() != "parameter_server") {
      return Error("strategy.replicas",
                   "`strategy.replicas: 2` applies to parameter_server: only there are variables "
                   "on servers of their own");
    }
    if (strategy.replicas() == 2 && strategy.table_memory_bytes() > 0) {
      return Error("strategy.replicas",
                   "`strategy.replicas: 2` and `strategy.table_memory_bytes` exclude each other: a "
                   "copy has all rows in memory");
    }
    // Not a default, which would differ from the keys of older checkpoints.
    if (!strategy.rebalance().empty()) {
      COHORT_RETURN_IF_ERROR(OneOf("strategy.rebalance", strategy.rebalance(), {"manual", "auto"}));
    }
    if (strategy.rebalance() == "auto" && strategy.name() != "parameter_server") {
      return Error("strategy.rebalance",
                   "`strategy.rebalance: auto` applies to parameter_server: only there are tablets "
                   "on servers of their own");
    }
    if (strategy.rebalance() == "auto" && strategy.table_memory_bytes() > 0) {
      return Error("strategy.rebalance",
                   "`strategy.rebalance: auto` and `strategy.table_memory_bytes` exclude each "
                   "other: a server that gets a tablet keeps all of its rows in memory");
    }
    COHORT_RETURN_IF_ERROR(CheckCommunication(known->replicas_own));
    if (FindStrategy(strategy.mode()) != nullptr) {
      return Error("strategy.mode",
                   "{} is a strategy and not a mode: write `strategy: {{name: {}}}`",
                   strategy.mode(), strategy.mode());
    }
    COHORT_RETURN_IF_ERROR(
        OneOf("strategy.mode", strategy.mode(), {kModeNames.begin(), kModeNames.end()}));
    COHORT_RETURN_IF_ERROR(CheckSteps());
    if (strategy.placement() != "balanced" && strategy.placement() != "round_robin") {
      return Error("strategy.placement",
                   "`strategy.placement` must be balanced or round_robin, not \"{}\"{}",
                   strategy.placement(),
                   DidYouMean(strategy.placement(), {"balanced", "round_robin"}));
    }
    if (strategy.pull_ahead() > kMaxPullAhead) {
      return Error("strategy.pull_ahead", "`strategy.pull_ahead` is at most {}, not {}",
                   kMaxPullAhead, strategy.pull_ahead());
    }
    if (strategy.pull_ahead() > 0 && strategy.mode() != "async") {
      return Error(
          "strategy.pull_ahead",
          "`strategy.pull_ahead` above 0 applies to mode async; mode {} limits how old the "
          "weights of a step may be. Leave it out, or choose mode async",
          strategy.mode());
    }
    COHORT_RETURN_IF_ERROR(CheckHotRows());
    COHORT_RETURN_IF_ERROR(Positive("strategy.closures_in_flight", strategy.closures_in_flight()));
    COHORT_RETURN_IF_ERROR(Positive("strategy.max_attempts", strategy.max_attempts()));
    COHORT_RETURN_IF_ERROR(CheckTableMemory());
    COHORT_RETURN_IF_ERROR(
        Seconds("strategy.task_timeout_s", strategy.task_timeout_s(), Zero::kRefused));
    return Seconds("strategy.closure_timeout_s", strategy.closure_timeout_s(), Zero::kRefused);
  }

  absl::Status CheckHotRows() const {
    const v1::StrategySpec& strategy = job_.strategy();
    if (!strategy.has_hot_rows()) return absl::OkStatus();
    const v1::HotRowsSpec& hot = strategy.hot_rows();
    if (strategy.mode() != "async" || strategy.name() != "parameter_server") {
      return Error(
          "strategy.hot_rows",
          "`strategy.hot_rows` applies to mode async of parameter_server, and this is "
          "mode {} of {}: only there may a worker read rows that lack updates. Leave it out",
          strategy.mode(), strategy.name());
    }
    if (hot.steps() == 0 || hot.steps() > kMaxHotRowSteps) {
      return Error("strategy.hot_rows.steps",
                   "`strategy.hot_rows.steps` is 1 to {}, not {}: for how many of its steps a "
                   "worker reads its copy of a row",
                   kMaxHotRowSteps, hot.steps());
    }
    if (hot.rows() == 0 || hot.rows() > kMaxHotRows) {
      return Error("strategy.hot_rows.rows",
                   "`strategy.hot_rows.rows` is 1 to {}, not {}: how many rows of each embedding a "
                   "worker keeps",
                   kMaxHotRows, hot.rows());
    }
    return absl::OkStatus();
  }

  absl::Status CheckTableMemory() const {
    const v1::StrategySpec& strategy = job_.strategy();
    const uint64_t bytes = strategy.table_memory_bytes();
    if (bytes > 0 && bytes < kLeastTableMemory) {
      return Error("strategy.table_memory_bytes",
                   "`strategy.table_memory_bytes` is {}, and a server needs at least {} bytes for "
                   "its tables",
                   bytes, kLeastTableMemory);
    }
    if (bytes == 0 && !strategy.table_directory().empty()) {
      return Error("strategy.table_directory",
                   "`strategy.table_directory` is for the rows beyond "
                   "`strategy.table_memory_bytes`, which is missing");
    }
    return absl::OkStatus();
  }

  absl::Status CheckReplicas() const {
    const v1::StrategySpec& strategy = job_.strategy();
    if (strategy.mode() != "sync") {
      return Error("strategy.mode",
                   "strategy {} needs mode sync, because its replicas are copies of each other: "
                   "leave out `mode`, or write `mode: sync`",
                   strategy.name());
    }
    if (strategy.backup_work() == "none") return absl::OkStatus();
    return Error("strategy.backup_work",
                 "strategy {} has no backup work, because every replica owns a part of the "
                 "variables; {} has it",
                 strategy.name(), DefaultStrategy(OwnerCalls::kSockets).name);
  }

  // Other strategies have no use for these keys, so that a job may run under each of them.
  absl::Status CheckCommunication(bool replicas_own) const {
    const v1::StrategySpec& strategy = job_.strategy();
    const std::string& name = strategy.communication();
    const std::string& ops = strategy.cross_device_ops();
    if (!ops.empty() && CommunicationOf(ops).empty()) {
      return OneOf("strategy.cross_device_ops", ops, CrossDeviceOpsNames());
    }
    COHORT_RETURN_IF_ERROR(OneOf("strategy.communication", name, CommunicationNames()));
    if (!ops.empty() && CommunicationOf(ops) != kAutoCommunication &&
        CommunicationOf(ops) != name) {
      return Error("strategy.cross_device_ops",
                   "{} is `communication: {}`, but the job has `communication: {}`: leave out one "
                   "of the two keys",
                   ops, CommunicationOf(ops), name);
    }
    const std::string key = lines_.keys.contains("strategy.communication")
                                ? "strategy.communication"
                                : "strategy.cross_device_ops";
    if (replicas_own && name == kRingCommunication && strategy.deterministic() == "true") {
      return Error(
          key,
          "the sums of communication ring depend on the number of replicas, and the job has "
          "`deterministic: true`: write `communication: direct`");
    }
    if (!replicas_own || name != kNcclCommunication) return absl::OkStatus();
    return At(key, Unimplemented("communication nccl exchanges the memory of GPUs, and Cohort's "
                                 "replicas exchange gradients in host memory: write auto, ring or "
                                 "direct"));
  }

  absl::Status CheckScale() const {
    const v1::StrategySpec& strategy = job_.strategy();
    COHORT_RETURN_IF_ERROR(
        OneOf("strategy.scale_learning_rate", strategy.scale_learning_rate(), {"none", "linear"}));
    if (strategy.scale_learning_rate() == "none" || strategy.mode() == "sync") {
      return absl::OkStatus();
    }
    return Error(
        "strategy.scale_learning_rate",
        "`strategy.scale_learning_rate: linear` applies to mode sync: in mode {} an update "
        "has the gradient of one closure",
        strategy.mode());
  }

  // One of these names.
  absl::Status OneOf(const std::string& path, const std::string& value,
                     const std::vector<std::string>& names) const {
    if (std::find(names.begin(), names.end(), value) != names.end()) return absl::OkStatus();
    return Error(path, "`{}` must be one of {}, not \"{}\"{}", path, fmt::join(names, ", "),
                 value.substr(0, 60), DidYouMean(value, names));
  }

  // The keys of sync and bounded_staleness.
  absl::Status CheckSteps() const {
    const v1::StrategySpec& strategy = job_.strategy();
    const bool sync = ModeNamed(strategy.mode()) == ConsistencyMode::kSync;
    const bool bounded = ModeNamed(strategy.mode()) == ConsistencyMode::kBounded;
    COHORT_RETURN_IF_ERROR(OneOf("strategy.backup_work", strategy.backup_work(),
                                 {kBackupWorkNames.begin(), kBackupWorkNames.end()}));
    COHORT_RETURN_IF_ERROR(
        OneOf("strategy.deterministic", strategy.deterministic(), {"auto", "true", "false"}));
    const bool drop = BackupWorkNamed(strategy.backup_work()) == BackupWork::kDrop;
    if (!sync && strategy.backup_work() != "none") {
      return Error("strategy.backup_work", "`strategy.backup_work` applies to mode sync");
    }
    if (!sync && !bounded && strategy.closures_per_step() > 0) {
      return Error("strategy.closures_per_step",
                   "`strategy.closures_per_step` applies to the modes sync and bounded_staleness: "
                   "leave it out, or write `mode: sync`");
    }
    if (strategy.closures_per_step() > 4096) {
      return Error("strategy.closures_per_step", "a step has at most 4096 closures, not {}",
                   strategy.closures_per_step());
    }
    if (!bounded && strategy.staleness() > 0) {
      return Error("strategy.staleness",
                   "`strategy.staleness` applies to the mode bounded_staleness");
    }
    if (drop != (strategy.replicas_to_aggregate() > 0)) {
      return Error(drop ? "strategy.backup_work" : "strategy.replicas_to_aggregate",
                   "`backup_work: drop` and `replicas_to_aggregate` belong together: how many of "
                   "the closures of a step close it");
    }
    if (drop && strategy.closures_per_step() > 0 &&
        strategy.replicas_to_aggregate() > strategy.closures_per_step()) {
      return Error("strategy.replicas_to_aggregate",
                   "`strategy.replicas_to_aggregate` is {}, but a step has {} closures",
                   strategy.replicas_to_aggregate(), strategy.closures_per_step());
    }
    COHORT_RETURN_IF_ERROR(CheckDeterministic());
    COHORT_RETURN_IF_ERROR(CheckScale());
    if (sync && job_.fit().steps_per_execution() > 1) {
      return Error("fit.steps_per_execution",
                   "`fit.steps_per_execution` must be 1 in mode sync: each closure is part of one "
                   "step. Several closures of a step travel in one message anyway");
    }
    return CheckGlobalBatch();
  }

  // "auto" promises nothing: it goes with everything.
  absl::Status CheckDeterministic() const {
    const v1::StrategySpec& strategy = job_.strategy();
    if (strategy.deterministic() != "true") return absl::OkStatus();
    if (strategy.mode() != "sync") {
      return Error("strategy.deterministic", "`strategy.deterministic: true` needs mode sync");
    }
    if (strategy.backup_work() == "drop") {
      return Error("strategy.deterministic",
                   "`strategy.deterministic: true` excludes `backup_work: drop`: which closures of "
                   "a step count depends on their speed");
    }
    if (job_.data().visitation() == v1::INDEPENDENT) {
      return Error("strategy.deterministic",
                   "`strategy.deterministic: true` excludes `visitation: independent`: which "
                   "records a step has depends on the workers");
    }
    return absl::OkStatus();
  }

  absl::Status CheckGlobalBatch() const {
    const uint32_t global = job_.data().global_batch_size();
    if (global == 0) return absl::OkStatus();
    const uint32_t closures = job_.strategy().closures_per_step();
    if (job_.strategy().mode() != "sync" || closures == 0) {
      return Error("data.global_batch_size",
                   "`data.global_batch_size` needs `strategy.mode: sync` and "
                   "`strategy.closures_per_step`: a closure's batch is global_batch_size / "
                   "closures_per_step");
    }
    if (lines_.keys.contains("data.batch_size")) {
      return Error("data.global_batch_size",
                   "give `data.batch_size` (of one closure) or `data.global_batch_size`, not both");
    }
    if (global % closures != 0) {
      return Error("data.global_batch_size",
                   "`data.global_batch_size` is {}, which {} closures per step do not divide",
                   global, closures);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCheckpoint() const {
    const v1::CheckpointSpec& checkpoint = job_.checkpoint();
    COHORT_RETURN_IF_ERROR(Positive("checkpoint.max_to_keep", checkpoint.max_to_keep()));
    COHORT_RETURN_IF_ERROR(Positive("checkpoint.full_every", checkpoint.full_every()));
    COHORT_RETURN_IF_ERROR(
        Seconds("checkpoint.cut_deadline_s", checkpoint.cut_deadline_s(), Zero::kRefused));
    COHORT_RETURN_IF_ERROR(
        Seconds("checkpoint.every_seconds", checkpoint.every_seconds(), Zero::kAllowed));
    return checkpoint.keep_best().empty() ? CheckNoBest() : CheckBest();
  }

  absl::Status CheckInitialWeights() const {
    const v1::InitialWeightsSpec& weights = job_.initial_weights();
    if (job_.has_initial_weights() && weights.path().empty()) {
      return Error("initial_weights",
                   "`initial_weights` needs a `path`: a safetensors file, a "
                   "checkpoint, or a file of Keras' save_weights");
    }
    for (int i = 0; i < weights.rename_size(); ++i) {
      if (weights.rename(i).from() != weights.rename(i).to()) continue;
      return Error(
          fmt::format("initial_weights.rename[{}]", i),
          "`rename` needs a `from` and a `to` that differ: {{from: \"old/\", to: \"new/\"}}");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNoBest() const {
    if (job_.checkpoint().mode().empty()) return absl::OkStatus();
    return Error("checkpoint.mode",
                 "`checkpoint.mode` applies to the metric of `checkpoint.keep_best`: set "
                 "`keep_best`, or leave out `mode`");
  }

  // The metrics that training reports.
  std::vector<std::string> Reported(std::string_view prefix) const {
    std::vector<std::string> names = {fmt::format("{}loss", prefix)};
    if (job_.compile().losses_size() > 1) {
      for (const v1::OutputLoss& loss : job_.compile().losses()) {
        names.push_back(fmt::format("{}{}_loss", prefix, loss.output()));
      }
    }
    for (const v1::MetricSpec& m : job_.compile().metric_classes()) {
      names.push_back(fmt::format("{}{}", prefix, m.name()));
    }
    return names;
  }

  absl::Status CheckCallback(const std::string& key, const v1::ClassConfig& callback) const {
    const auto known = Callbacks().Find(callback.class_name());
    if (!known.ok()) return Error(key, "{}", std::string(known.status().message()));
    const CallbackClass& c = **known;
    if (!c.refused.empty()) return Error(key, "{}", c.refused);
    const auto at = [&](const absl::Status& status) {
      return status.ok() ? status : Error(key, "{}", std::string(status.message()));
    };
    if (c.check != nullptr) COHORT_RETURN_IF_ERROR(at(c.check(Config(callback))));
    v1::JobSpec applied = job_;
    if (c.apply != nullptr) COHORT_RETURN_IF_ERROR(at(c.apply(Config(callback), &applied)));
    return c.sets_learning_rate ? CheckRateMayChange(key, callback.class_name()) : absl::OkStatus();
  }

  // As in Keras, whose optimizers with a schedule refuse another rate.
  absl::Status CheckRateMayChange(const std::string& key, const std::string& callback) const {
    if (job_.compile().optimizers_size() > 0) {
      return Error(key,
                   "{} sets the learning rate of one optimizer, and this job has several: give "
                   "them schedules, or leave out `compile.optimizers`",
                   callback);
    }
    const auto& arguments = job_.compile().optimizer_class().config();
    const auto rate = arguments.find("learning_rate");
    if (rate != arguments.end() && rate->second.has_f()) return absl::OkStatus();
    return Error(key,
                 "{} sets the learning rate, which must be a number then, and the optimizer has a "
                 "schedule: leave out one of them",
                 callback);
  }

  // True for one of several numbers of a metric, as "f1_score_2". How many there are, the model
  // knows.
  bool IsPart(std::string_view reported, std::string_view prefix) const {
    const size_t end = reported.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == reported.size() || reported[end] != '_') {
      return false;
    }
    const auto& metrics = job_.compile().metric_classes();
    return std::any_of(metrics.begin(), metrics.end(), [&](const v1::MetricSpec& metric) {
      if (fmt::format("{}{}", prefix, metric.name()) != reported.substr(0, end)) return false;
      const auto known = Metrics().Find(metric.metric_class().class_name());
      const auto config = CompleteConfig(Metrics(), metric.metric_class());
      return known.ok() && config.ok() && (*known)->may_have_parts != nullptr &&
             (*known)->may_have_parts(Config(*config));
    });
  }

  // What a callback monitors must be reported.
  absl::Status CheckCallbacks() const {
    const bool validates = job_.data().has_validation() && job_.evaluate().by_closures();
    std::vector<std::string> known = Reported("");
    const std::vector<std::string> validation = Reported("val_");
    if (validates) known.insert(known.end(), validation.begin(), validation.end());
    for (int i = 0; i < job_.fit().callbacks_size(); ++i) {
      const v1::ClassConfig& callback = job_.fit().callbacks(i);
      COHORT_RETURN_IF_ERROR(CheckCallback(fmt::format("fit.callbacks[{}]", i), callback));
      const auto monitor = callback.config().find("monitor");
      if (monitor == callback.config().end()) continue;
      if ((*Callbacks().Find(callback.class_name()))->make == nullptr) continue;
      const std::string& metric = monitor->second.s();
      if (std::find(known.begin(), known.end(), metric) != known.end()) continue;
      if (IsPart(metric, "") || (validates && IsPart(metric, "val_"))) continue;
      const std::string key = fmt::format("fit.callbacks[{}]", i);
      if (std::find(validation.begin(), validation.end(), metric) != validation.end()) {
        return Error(key,
                     "{} monitors \"{}\", which needs `data.validation` and the validation after "
                     "epochs (`evaluate.by_closures`)",
                     callback.class_name(), metric);
      }
      return Error(key, "{} monitors \"{}\", which this job does not report; it reports {}{}",
                   callback.class_name(), metric.substr(0, 60), fmt::join(known, ", "),
                   DidYouMean(metric, known));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBest() const {
    const std::string& metric = job_.checkpoint().keep_best();
    const std::vector<std::string> known = Reported("val_");
    if (std::find(known.begin(), known.end(), metric) == known.end() && !IsPart(metric, "val_")) {
      // Training reports "loss".
      const bool prefixed = metric.compare(0, 4, "val_") == 0;
      return Error("checkpoint.keep_best",
                   "the validation of this job reports no \"{}\"; it reports {}{}",
                   metric.substr(0, 60), fmt::join(known, ", "),
                   DidYouMean(prefixed ? metric : "val_" + metric, known));
    }
    if (!job_.data().has_validation()) {
      return Error("checkpoint.keep_best",
                   "`checkpoint.keep_best` needs `data.validation`, whose metrics determine the "
                   "best checkpoint");
    }
    if (!job_.evaluate().by_closures()) {
      return Error("checkpoint.keep_best",
                   "`checkpoint.keep_best` needs the validation after epochs: leave out "
                   "`evaluate.by_closures: false`");
    }
    const std::string& mode = job_.checkpoint().mode();
    if (mode == "min" || mode == "max") return absl::OkStatus();
    return Error("checkpoint.mode", "`checkpoint.mode` must be min, max or auto, not \"{}\"",
                 mode.substr(0, 60));
  }

  const v1::JobSpec& job_;
  const JobLines& lines_;
};

}  // namespace

absl::Status CheckJob(const v1::JobSpec& job, const JobLines& lines) {
  return Checker(job, lines).Run();
}

}  // namespace cohort
