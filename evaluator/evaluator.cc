#include "evaluator/evaluator.h"

#include <filesystem>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/rpc/admin/admin_server.h"
#include "evaluator/evaluator_options.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// How long the last writes and the end of the admin port may take.
constexpr Duration kTimeToStop = std::chrono::seconds(20);

CheckpointEvaluator::Options EvaluationOptions(const Evaluator::Options& options,
                                               std::function<void()> on_progress) {
  CheckpointEvaluator::Options made;
  made.data.data_dir = options.data_dir;
  made.data.threads = options.threads;
  made.data.log = options.log;
  made.threads = options.threads;
  made.on_progress = std::move(on_progress);
  return made;
}

std::string WaitsIn(const std::string& directory) {
  return fmt::format("waiting for a checkpoint ({})", directory);
}

// Returns true if only this checkpoint is at fault: it is torn, or was deleted meanwhile.
bool BlamesCheckpoint(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

}  // namespace

Evaluator::Evaluator(Options options)
    : options_(std::move(options)),
      evaluated_(registry_.AddCounter("cohort_evaluator_evaluations_total",
                                      "Checkpoints that were evaluated")),
      refused_(registry_.AddCounter("cohort_evaluator_refused_total",
                                    "Checkpoints that could not be read")),
      step_(registry_.AddGauge("cohort_evaluator_step", "Step of the last one evaluated")),
      doing_(WaitsIn(options_.checkpoint_dir)),
      since_(clock_.Now()),
      exporters_({.directory = options_.log_dir + "/export",
                  .names = options_.exporters,
                  .keep = options_.exports_to_keep}),
      evaluator_(EvaluationOptions(options_, [this] { Notify(); })),
      waiting_(&clock_, {.timeout = options_.wait}),
      started_(clock_.Now()) {}

Evaluator::~Evaluator() = default;

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(Options options) {
  if (options.checkpoint_dir.empty()) {
    return UsageError(
        "--checkpoint_dir is missing: the directory where the "
        "job's checkpoints are");
  }
  std::unique_ptr<Evaluator> evaluator(new Evaluator(std::move(options)));
  const Options& o = evaluator->options_;
  CheckpointWatch::Options watch;
  watch.directory = o.checkpoint_dir;
  watch.latest_only = o.latest_only;
  watch.launch = o.launch;
  if (!o.log_dir.empty()) {
    auto reporter = Reporter::Open(o.log_dir, &evaluator->clock_);
    COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(reporter.status()));
    evaluator->reporter_ = *std::move(reporter);
    if (!o.once) watch.done_file = o.log_dir + "/evaluated.txt";
  }
  COHORT_ASSIGN_OR_RETURN(evaluator->watch_, CheckpointWatch::Open(watch));
  if (!o.admin_address.empty()) {
    AdminServer::Options admin;
    admin.address = o.admin_address;
    admin.metrics = [e = evaluator.get()] { return e->registry_.Text(); };
    admin.status = [e = evaluator.get()] { return e->StatusText(); };
    COHORT_ASSIGN_OR_RETURN(evaluator->admin_, AdminServer::Start(std::move(admin)));
  }
  return evaluator;
}

int Evaluator::admin_port() const { return admin_ == nullptr ? -1 : admin_->port(); }

void Evaluator::SetActivity(std::string what) {
  MutexLock lock(&mu_);
  if (what == doing_) return;
  doing_ = std::move(what);
  since_ = clock_.Now();
}

std::string Evaluator::StatusText() const {
  MutexLock lock(&mu_);
  return fmt::format("{}, {:.0f} s\n{}\n", doing_, ToSeconds(clock_.Now() - since_), last_);
}

void Evaluator::Notify() {
  ++turns_;
  ServiceNotifier* const notifier = options_.notifier;
  if (notifier == nullptr) return;
  std::string status;
  {
    MutexLock lock(&mu_);
    status = fmt::format("{}; {}", last_, doing_);
  }
  notifier->SetStatus(status);
  notifier->Watch({turns_});
}

absl::StatusOr<std::optional<CheckpointEntry>> Evaluator::Choose() {
  if (!options_.once) return watch_->Next(/*newest=*/options_.throttle > Duration::zero());
  std::error_code ignored;
  if (std::filesystem::exists(JoinPath(options_.checkpoint_dir, kManifestName), ignored)) {
    COHORT_ASSIGN_OR_RETURN(CheckpointEntry named, CheckpointAt(options_.checkpoint_dir));
    return std::optional<CheckpointEntry>(std::move(named));
  }
  COHORT_ASSIGN_OR_RETURN(
      std::optional<CheckpointEntry> newest,
      NewestValid(
          options_.checkpoint_dir, [this](const std::string& path, const absl::Status& why) {
            options_.log->Failure(LogLevel::kWarning, "checkpoint_refused", Annotate(why, path));
          }));
  if (!newest.has_value()) {
    return NotFound("there is no complete checkpoint in {}", options_.checkpoint_dir);
  }
  return newest;
}

std::string Evaluator::MustWait(const CheckpointEntry& entry) const {
  const TimePoint now = clock_.Now();
  const bool begins = now < started_ + options_.start_delay;
  const bool throttled = evaluations_ > 0 && now < begun_ + options_.throttle;
  if (!begins && !throttled) return "";
  // Nothing follows the last checkpoint.
  const auto manifest = ReadManifest(entry.manifest);
  if (manifest.ok() && manifest->finished()) return "";
  return begins ? "--start_delay_s" : "--throttle_s";
}

absl::StatusOr<bool> Evaluator::Poll() {
  COHORT_ASSIGN_OR_RETURN(const std::optional<CheckpointEntry> entry, Choose());
  if (entry.has_value() && !options_.once) {
    if (const std::string why = MustWait(*entry); !why.empty()) {
      waiting_.Arrived("a checkpoint");
      SetActivity(fmt::format("{} is to be evaluated later: {}", entry->id.ToString(), why));
      return false;
    }
  }
  if (!entry.has_value()) {
    done_ = watch_->finished();
    if (done_) return false;
    waiting_.Expect("a checkpoint", options_.checkpoint_dir);
    SetActivity(WaitsIn(options_.checkpoint_dir));
    if (const auto line = waiting_.Tick()) options_.log->Info("waiting", {{"for", *line}});
    if (const auto waited = waiting_.Expired()) {
      return DeadlineExceeded(
          "no new checkpoint came to {} in {:.0f} s; start the chief with this directory, or raise "
          "--wait_s",
          options_.checkpoint_dir, ToSeconds(*waited));
    }
    return false;
  }
  waiting_.Arrived("a checkpoint");
  SetActivity(fmt::format("evaluating {}", entry->id.ToString()));
  begun_ = clock_.Now();
  const auto evaluation = evaluator_.Evaluate(entry->manifest);
  if (!evaluation.ok()) {
    if (options_.once || !BlamesCheckpoint(evaluation.status())) return evaluation.status();
    options_.log->Failure(LogLevel::kWarning, "checkpoint_refused", evaluation.status());
    refused_->Increment();
    {
      MutexLock lock(&mu_);
      last_ = fmt::format("{} was refused: {}", entry->id.ToString(),
                          std::string(evaluation.status().message()));
    }
    COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(watch_->Done(*entry)));
    return true;
  }
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(Report(*entry, *evaluation)));
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(Export(*entry, *evaluation)));
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(watch_->Done(*entry)));
  ++evaluations_;
  done_ = options_.once || evaluations_ == options_.max_evaluations || watch_->finished();
  return true;
}

absl::Status Evaluator::Export(const CheckpointEntry& entry,
                               const CheckpointEvaluator::Evaluation& evaluation) {
  if (options_.once || options_.exporters.empty()) return absl::OkStatus();
  const auto exported = exporters_.Export(entry, evaluation.record);
  if (!exported.ok() && BlamesCheckpoint(exported.status())) {  // it was deleted meanwhile
    options_.log->Failure(LogLevel::kWarning, "export_failed", exported.status());
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_ERROR(exported.status());
  for (const std::string& path : *exported) options_.log->Info("exported", {{"path", path}});
  return absl::OkStatus();
}

absl::Status Evaluator::Report(const CheckpointEntry& entry,
                               const CheckpointEvaluator::Evaluation& evaluation) {
  evaluated_->Increment();
  step_->Set(static_cast<double>(evaluation.record.step));
  {
    MutexLock lock(&mu_);
    last_ = fmt::format("evaluated {}, step {}, {} examples", entry.id.ToString(),
                        evaluation.record.step, evaluation.examples);
    for (const auto& [name, value] : evaluation.record.metrics) {
      last_ += fmt::format(", {} {:.6f}", name, value);
    }
  }
  options_.log->Info("evaluated", {{"checkpoint", entry.id.ToString()},
                                   {"step", evaluation.record.step},
                                   {"examples", evaluation.examples},
                                   {"seconds", evaluation.record.seconds}});
  if (options_.print) {
    const absl::Status printed = options_.print(ToJsonLine(evaluation.record, clock_.UnixMicros()));
    // With a log directory the printed line is only a copy.
    if (options_.once || reporter_ == nullptr) COHORT_RETURN_IF_ERROR(printed);
  }
  return reporter_ == nullptr ? absl::OkStatus() : reporter_->Report(evaluation.record);
}

Evaluator::Options MakeEvaluatorOptions(const EvaluatorFlags& flags, const RoleContext& context,
                                        const char* data_dir) {
  Evaluator::Options options;
  options.checkpoint_dir = flags.checkpoint_dir;
  options.log_dir = flags.log_dir;
  options.data_dir = !flags.data_dir.empty() ? flags.data_dir : data_dir == nullptr ? "" : data_dir;
  options.admin_address = AdminAddress(flags.role);
  options.threads = context.threads;
  options.launch = flags.launch;
  options.latest_only = flags.latest_only;
  options.once = flags.once;
  options.max_evaluations = flags.max_evaluations;
  options.wait = FromSeconds(flags.wait_s);
  options.start_delay = FromSeconds(flags.start_delay_s);
  options.throttle = FromSeconds(flags.throttle_s);
  if (auto exporters = ExportersOf(flags.exporters); exporters.ok()) {  // CheckEvaluatorFlags
    options.exporters = *std::move(exporters);
  }
  options.exports_to_keep = flags.exports_to_keep;
  options.log = context.log.get();
  options.print = [](std::string_view line) { return WriteToStdout(fmt::format("{}\n", line)); };
  return options;
}

absl::StatusOr<int> RunUntilEnd(Evaluator* evaluator, SignalWaiter* signals, Duration poll) {
  ServiceNotifier* const notifier = evaluator->notifier();
  if (notifier != nullptr) notifier->Ready();
  std::optional<int> code;
  while (!code.has_value()) {
    evaluator->Notify();
    COHORT_ASSIGN_OR_RETURN(const bool again, evaluator->Poll());
    if (evaluator->done()) {
      code = static_cast<int>(ExitCode::kOk);
    } else if (const auto signal = signals->WaitFor(again ? Duration::zero() : poll)) {
      code = ExitCodeOfSignal(*signal);
    }
  }
  if (notifier != nullptr) notifier->Stopping(kTimeToStop);
  return *code;
}

}  // namespace cohort
