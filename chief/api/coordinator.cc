#include "chief/api/coordinator.h"

#include <chrono>
#include <utility>

#include "chief/api/coordinator_impl.h"
#include "chief/api/core_conversion.h"
#include "common/base/crash_point.h"
#include "common/base/flags.h"
#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/data/fingerprint.h"
#include "common/graph/program_proto.h"
#include "common/placement/message_size.h"
#include "common/rpc/stream/frame_codec.h"

namespace cohort {

constexpr TimePoint kForever = TimePoint::max();

// ------------------------------------------------------------------ time, waits

int64_t ClusterCoordinator::Impl::Now() const {
  const auto since = options_.clock->Now() - start_;
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count() + 1;
}

void ClusterCoordinator::Impl::Tick() {
  std::string waiting;
  {
    MutexLock lock(&mu_);
    core_->Tick(Now());
    Wake();
    if (options_.interrupt != nullptr && *options_.interrupt && !interrupted_) {
      interrupted_ = true;
      changed_.SignalAll();
    }
    if (!conditions_.empty() && options_.clock->Now() >= next_report_) {
      waiting = WaitingFor();
      next_report_ = options_.clock->Now() + std::chrono::seconds(waiting.empty() ? 1 : 3);
    }
  }
  if (!waiting.empty() && options_.on_wait) options_.on_wait(waiting);
  loop_.After(std::chrono::milliseconds(10), [this] { Tick(); });
}

std::string ClusterCoordinator::Impl::WaitingFor() const {
  if (!closing_.empty()) return closing_;
  std::string text = core_->WaitingFor();
  return text.empty() && cut_waits_ > 0 ? core_->WaitingForCut() : text;
}

void ClusterCoordinator::Impl::Input(const std::function<void(CoordinatorCore*)>& input) {
  MutexLock lock(&mu_);
  input(core_.get());
  Wake();
}

void ClusterCoordinator::Impl::Wake() {
  for (const Condition* condition : conditions_) {
    if ((*condition)()) {
      changed_.SignalAll();
      return;
    }
  }
}

absl::StatusOr<bool> ClusterCoordinator::Impl::Wait(const Condition& condition,
                                                    TimePoint deadline) {
  conditions_.push_back(&condition);
  bool holds = condition();
  bool in_time = true;
  while (!holds && in_time && !interrupted_) {
    if (deadline == kForever) {
      changed_.Wait(&mu_);
    } else {
      in_time = changed_.WaitUntil(&mu_, deadline);
    }
    holds = condition();
  }
  conditions_.remove(&condition);
  if (!holds && interrupted_) return Cancelled("interrupted");
  return holds;
}

void ClusterCoordinator::Impl::Interrupt() {
  MutexLock lock(&mu_);
  interrupted_ = true;
  changed_.SignalAll();
}

// ------------------------------------------------------------------ effects

void ClusterCoordinator::Impl::SendToWorker(int worker, v1::ChiefToWorker message) {
  links_->Send(WorkerTask(worker), SerializeToFrame(message));
}

void ClusterCoordinator::Impl::SendToPs(int ps, v1::ChiefToPs message) {
  links_->Send(PsTask(ps), SerializeToFrame(message));
}

void ClusterCoordinator::Impl::Reconnect(Task task, const std::string&) { links_->Reconnect(task); }

void ClusterCoordinator::Impl::ClosureDone(uint64_t token, const absl::Status& status,
                                           v1::ClosureResult* result) {
  if (!first_closure_.has_value() && status.ok()) first_closure_ = options_.clock->Now();
  results_.Finish(token, status, result);
}

void ClusterCoordinator::Impl::Note(const char* event, const std::string& what) {
  log_->Info(event, {{"what", what}});
}

void ClusterCoordinator::Impl::Warn(const char* event, const std::string& what) {
  log_->Warning(event, {{"what", what}});
}

void ClusterCoordinator::Impl::WriteManifest(v1::Manifest manifest) {
  disk_->Post(
      [this, manifest = std::move(manifest)]() mutable { CommitCheckpoint(std::move(manifest)); });
}

void ClusterCoordinator::Impl::CommitCheckpoint(v1::Manifest manifest) {
  if (const absl::Status lost = lock_->Check(); !lost.ok()) return LoseDirectory(lost);
  bool wanted = false;
  bool taken = false;
  Input([&](CoordinatorCore* core) {
    wanted = core->cut_commits(manifest.cut());
    manifest.mutable_chief()->set_durable_record(core->durable_record());
  });
  if (!wanted) return;  // slow storage has delayed earlier manifests until this cut was dropped
  manifest.set_unix_micros(static_cast<uint64_t>(options_.clock->UnixMicros()));
  manifest.set_cohort_version(std::string(CohortVersion()));
  if (options_.complete_manifest) options_.complete_manifest(&manifest);
  COHORT_CRASH_POINT("chief.cut.manifest_writing");
  const CheckpointId id = IdOf(manifest);
  const std::string directory = options_.checkpoint_dir + "/" + id.ToString();
  const absl::Status status = CommitManifest(directory, manifest);
  Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    taken = core->OnManifestWritten(manifest.cut(), status, directory + "/" + kManifestName);
    if (!taken) return;
    newest_ = directory;
    if (options_.on_committed) options_.on_committed(manifest);
  });
  if (taken) {
    // The deletion has its own thread: the next manifest does not wait for it.
    const auto best = CheckpointId::Parse(manifest.best().checkpoint());
    retention_->Post([this, id, best] { DeleteOld(id, best); });
  } else if (status.ok()) {
    // It deletes nothing: the chief may already be restoring an older checkpoint.
    log_->Warning("checkpoint_late", {{"path", directory}});
  }
}

void ClusterCoordinator::Impl::DeleteOld(const CheckpointId& newest,
                                         const std::optional<CheckpointId>& best) {
  const auto deleted = DeleteOldCheckpoints(options_.checkpoint_dir,
                                            {.max_to_keep = options_.max_to_keep,
                                             .known_valid = newest,
                                             .best = best,
                                             .may_delete = [this] { return lock_->Check(); }});
  if (!deleted.ok()) log_->Failure(LogLevel::kWarning, "checkpoint_retention", deleted.status());
}

void ClusterCoordinator::Impl::CutDone(uint64_t cut, const absl::Status& status) {
  cuts_done_[cut] = {status, status.ok() ? newest_ : ""};  // one cut at a time, so it is the newest
  if (cuts_done_.size() > 64) cuts_done_.erase(cuts_done_.begin());
  if (status.ok()) {
    log_->Info("checkpoint", {{"cut", cut}, {"path", newest_}});
  } else {
    log_->Failure(LogLevel::kWarning, "checkpoint_failed", status);
  }
}

// ------------------------------------------------------------------ the API

absl::StatusOr<StepFunction> ClusterCoordinator::Impl::RegisterStep(const Program& program) {
  v1::Program proto;
  ProgramToProto(program, &proto);
  std::string fingerprint = Fingerprint(program);
  MutexLock lock(&mu_);
  COHORT_RETURN_IF_ERROR(CheckMessageSizes(layout_, {&program, 1}));
  programs_.push_back(program);
  return StepFunction{core_->AddProgram(std::move(fingerprint), std::move(proto))};
}

absl::StatusOr<PerWorkerDataset> ClusterCoordinator::Impl::CreatePerWorkerDataset(
    const v1::DatasetSpec& spec, const DatasetOptions& options) {
  if (options.batch_size == 0) return InvalidArgument("a dataset needs a batch size");
  v1::CreateResource resource;
  *resource.mutable_dataset() = BatchDefiningPart(spec);
  resource.set_visitation(options.exactly_once ? v1::EXACTLY_ONCE : v1::INDEPENDENT);
  resource.set_seed(options.seed);
  resource.set_batch_size(options.batch_size);
  for (const std::string& feature : options.features) resource.add_features(feature);
  if (options.data != nullptr) *resource.mutable_data() = *options.data;
  // Workers keep their resources when the chief restarts, and checkpoints keep the readers'
  // positions by name. So the name must depend only on the data that is read. A worker takes the
  // other fields of the spec when it recreates the resource.
  const uint64_t hash = Fnv1a(resource.SerializeAsString());
  std::string name =
      fmt::format("{}-{:016x}", options.name.empty() ? "dataset" : options.name, hash);
  MutexLock lock(&mu_);
  if (const int nth = ++datasets_[name]; nth > 1) name += fmt::format("-{}", nth);
  resource.set_name(std::move(name));
  *resource.mutable_dataset() = spec;
  return PerWorkerDataset{core_->AddResource(std::move(resource))};
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Impl::Schedule(ClosureRequest request) {
  ClosureSpec spec = ClosureSpecOf(request);
  MutexLock lock(&mu_);
  const auto room = [this, &spec]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || (!core_->error_pending() && core_->has_room(spec));
  };
  if (!room()) COHORT_RETURN_IF_ERROR(Wait(room, kForever).status());
  auto [token, value] = results_.New();
  spec.token = token;
  const absl::StatusOr<uint64_t> id = core_->Schedule(std::move(spec));
  if (id.ok()) return std::move(value);
  results_.Forget(token);
  return id.status();
}

absl::StatusOr<bool> ClusterCoordinator::Impl::JoinUntil(TimePoint deadline) {
  MutexLock lock(&mu_);
  const auto done = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return Failed() || core_->idle(); };
  COHORT_ASSIGN_OR_RETURN(const bool finished, Wait(done, deadline));
  if (!finished) return false;
  COHORT_RETURN_IF_ERROR(core_->TakeError());
  return true;
}

absl::StatusOr<bool> ClusterCoordinator::Impl::Done() {
  MutexLock lock(&mu_);
  const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || !core_->error_pending();
  };
  COHORT_RETURN_IF_ERROR(Wait(settled, kForever).status());
  COHORT_RETURN_IF_ERROR(core_->TakeError());
  return core_->idle();
}

absl::Status ClusterCoordinator::Impl::StartCheckpoint() {
  MutexLock lock(&mu_);
  if (core_->cut_active()) return absl::OkStatus();
  return core_->StartCut(/*finished=*/false).status();
}

absl::StatusOr<std::string> ClusterCoordinator::Impl::WaitForCut(uint64_t cut) {
  // Waits for the record of the job's last checkpoint, except on a full disk or after an interrupt:
  // a restart finds the checkpoint without the record.
  const auto done = [this, cut]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || cuts_done_.contains(cut) ||
           (core_->finish_committed() && core_->journal_watch().refused());
  };
  ++cut_waits_;
  const absl::Status waited = Wait(done, kForever).status();
  --cut_waits_;
  if (Failed()) return core_->TakeError();
  if (core_->finish_committed() && !cuts_done_.contains(cut)) return newest_;
  COHORT_RETURN_IF_ERROR(waited);
  const CutResult& result = cuts_done_.at(cut);
  COHORT_RETURN_IF_ERROR(result.status);
  return result.path;
}

absl::StatusOr<std::string> ClusterCoordinator::Impl::Checkpoint(bool finished) {
  MutexLock lock(&mu_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || !core_->cut_active();
  };
  ++cut_waits_;
  const absl::Status waited = Wait(idle, kForever).status();
  --cut_waits_;
  COHORT_RETURN_IF_ERROR(waited);
  COHORT_ASSIGN_OR_RETURN(const uint64_t cut, core_->StartCut(finished));
  return WaitForCut(cut);
}

void ClusterCoordinator::Impl::Flush() {
  MutexLock lock(&mu_);
  // After Shutdown the phase differs, and there is nothing to flush.
  if (core_ == nullptr || core_->phase() != CoordinatorCore::Phase::kReady) return;
  core_->Flush();
  // It does not wait for a full disk either.
  const auto clean = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || core_->settlement().clean() || core_->journal_watch().refused();
  };
  // It waits even after an interrupt, because callers flush after one.
  const TimePoint deadline = Deadline(options_.flush_limit_s);
  const Condition condition = clean;
  conditions_.push_back(&condition);
  while (!clean() && changed_.WaitUntil(&mu_, deadline)) {
  }
  conditions_.remove(&condition);
}

CoordinatorState ClusterCoordinator::Impl::state() {
  MutexLock lock(&mu_);
  CoordinatorState s = StateOf(*core_);
  s.waiting_for = WaitingFor();
  s.journal_fsyncs = journal_->fsyncs();
  s.first_closure = first_closure_;
  return s;
}

v1::Layout ClusterCoordinator::Impl::layout() {
  MutexLock lock(&mu_);
  return layout_;
}

std::string ClusterCoordinator::Impl::newest_checkpoint() {
  MutexLock lock(&mu_);
  return newest_;
}

std::vector<UnfinishedPlace> ClusterCoordinator::Impl::Unfinished() {
  MutexLock lock(&mu_);
  return UnfinishedPlacesOf(*core_);
}

absl::Status ClusterCoordinator::Impl::EndEpoch() {
  MutexLock lock(&mu_);
  return core_->EndEpoch();
}

// ------------------------------------------------------------------ ClusterCoordinator

ClusterCoordinator::ClusterCoordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterCoordinator::~ClusterCoordinator() = default;

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Start(
    const CoordinatorOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  if (absl::Status failed = impl->Start(); !failed.ok()) {
    if (options.on_failed_start) options.on_failed_start(failed);
    return failed;
  }
  return std::unique_ptr<ClusterCoordinator>(new ClusterCoordinator(std::move(impl)));
}

absl::Status ClusterCoordinator::CreateVariables(std::span<const v1::VariableSpec> variables,
                                                 const v1::OptimizerSpec& optimizer,
                                                 const v1::PartitionerSpec& partitioner,
                                                 std::string_view placement) {
  return impl_->CreateVariables(variables, optimizer, partitioner, placement);
}

absl::StatusOr<StepFunction> ClusterCoordinator::RegisterStep(const Program& program) {
  return impl_->RegisterStep(program);
}

absl::StatusOr<PerWorkerDataset> ClusterCoordinator::CreatePerWorkerDataset(
    const v1::DatasetSpec& spec, const DatasetOptions& options) {
  return impl_->CreatePerWorkerDataset(spec, options);
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(StepFunction step,
                                                         std::vector<Tensor> arguments) {
  return impl_->Schedule({.step = step, .arguments = std::move(arguments)});
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(StepFunction step,
                                                         PerWorkerDataset dataset,
                                                         std::vector<Tensor> arguments) {
  return impl_->Schedule({.step = step, .dataset = dataset, .arguments = std::move(arguments)});
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(ClosureRequest request) {
  return impl_->Schedule(std::move(request));
}

absl::Status ClusterCoordinator::Join() { return impl_->JoinUntil(kForever).status(); }

absl::StatusOr<bool> ClusterCoordinator::JoinFor(double seconds) {
  return impl_->JoinUntil(std::chrono::steady_clock::now() + FromSeconds(seconds));
}

absl::StatusOr<bool> ClusterCoordinator::Done() { return impl_->Done(); }

absl::Status ClusterCoordinator::Checkpoint(bool finished) {
  return impl_->Checkpoint(finished).status();
}

absl::Status ClusterCoordinator::StartCheckpoint() { return impl_->StartCheckpoint(); }

absl::Status ClusterCoordinator::Restore() { return impl_->Restore(); }

absl::StatusOr<std::map<std::string, Tensor>> ClusterCoordinator::ReadVariables() {
  COHORT_ASSIGN_OR_RETURN(const std::string path, impl_->Checkpoint(/*finished=*/false));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path, {}));
  std::map<std::string, Tensor> out;
  for (const auto& [key, tensor] : reader->tensors()) {
    if (!key.second.empty()) continue;
    COHORT_ASSIGN_OR_RETURN(out[key.first], reader->Read(key.first, ""));
  }
  return out;
}

absl::Status ClusterCoordinator::Shutdown(const std::string& reason, bool job_finished) {
  return impl_->Shutdown(reason, job_finished);
}

void ClusterCoordinator::Close() { impl_->Close(); }
void ClusterCoordinator::Flush() { impl_->Flush(); }
void ClusterCoordinator::Interrupt() { impl_->Interrupt(); }
CoordinatorState ClusterCoordinator::state() const { return impl_->state(); }
v1::Layout ClusterCoordinator::layout() const { return impl_->layout(); }
std::string ClusterCoordinator::newest_checkpoint() const { return impl_->newest_checkpoint(); }
std::vector<UnfinishedPlace> ClusterCoordinator::Unfinished() const { return impl_->Unfinished(); }
absl::Status ClusterCoordinator::EndEpoch() { return impl_->EndEpoch(); }

}  // namespace cohort
