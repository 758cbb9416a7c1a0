#include "ps_server/ps_core.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

namespace {

// How often the chief hears about a request that takes long.
constexpr Duration kReportEvery = std::chrono::seconds(1);
// A snapshot has written as much more: pushes that it delays may be executed.
constexpr uint64_t kWakeEveryBytes = uint64_t{16} << 20;

TabletBuilder::Options BuilderOptions(const PsCore::Options& options) {
  return {.applied_limits = options.applied_limits,
          .shard = options.shard,
          .test_faults = options.test_faults};
}

v1::TabletHome HomeOf(uint32_t tablet, uint64_t term, uint32_t primary) {
  v1::TabletHome home;
  home.set_tablet(tablet);
  home.set_term(term);
  home.set_primary(primary);
  return home;
}

}  // namespace

PsCore::PsCore(const Options& options, Environment environment)
    : options_(options),
      env_(std::move(environment)),
      metrics_(env_.metrics),
      pool_(BufferPool::Create(options.max_idle_bytes)),
      data_path_(&metrics_, env_.clock, env_.apply_log),
      memory_(options.memory_bytes, options.memory_pool.bytes, options.least_room),
      builder_(BuilderOptions(options), {.store = env_.store,
                                         .registry = env_.metrics,
                                         .metrics = &metrics_,
                                         .log = env_.log,
                                         .pool = pool_.get(),
                                         .early_bytes = data_path_.early_bytes(),
                                         .memory = &memory_}),
      copies_(options.copies,
              {.clock = env_.clock,
               .pool = pool_.get(),
               .transport = env_.copies,
               .acknowledged = [this] { OnAcknowledged(); },
               .ended = [this] { PostCopied(); },
               .complete =
                   [this](const CopyLog& log) {
                     const v1::TabletHome home = HomeOf(log.tablet(), log.term(), 0);
                     env_.tablet_work([this, home] { OnCopyComplete(home); });
                   },
               .lost =
                   [this](const CopyLog& log, const absl::Status& why) {
                     const v1::TabletHome home = HomeOf(log.tablet(), log.term(), 0);
                     env_.tablet_work([this, home, why] { OnCopyLost(home, why); });
                   }}),
      adoption_(options.chief_timeout),
      index_(options.index) {}

// Tablets give their buffers back before the pool is closed.
PsCore::~PsCore() {
  {
    MutexLock lock(&mu_);
    DropBuild();
  }
  snapshots_.CancelAll();
  copies_.Keep({});
  data_path_.Serve(nullptr);
}

void PsCore::OnMessage(Connection connection, const v1::ChiefToPs& message) {
  // Without the lock: the storage may be slow.
  const bool sees = !message.has_adopt() || SeesCheckpointDir(message.adopt());
  MutexLock lock(&mu_);
  if (message.has_adopt()) {
    OnAdopt(connection, message, sees);
    return;
  }
  const Asker asker{message.generation(), message.request()};
  if (message.has_ping()) {
    v1::PsToChief pong;
    pong.set_request(message.request());
    pong.set_generation(adoption_.generation());
    pong.mutable_pong()->set_sent_unix_micros(message.ping().sent_unix_micros());
    if (env_.figures) *pong.mutable_pong()->mutable_figures() = env_.figures();
    env_.sink->Send(connection, pong);
    return;
  }
  if (message.generation() < adoption_.generation() || adoption_.connection() != connection) {
    return SendFenced(connection, message.request(), "the chief is not adopted on this connection");
  }
  switch (message.body_case()) {
    case v1::ChiefToPs::kAssign:
      OnAssign(asker, message.assign());
      break;
    case v1::ChiefToPs::kWatermark:
      OnWatermark(message.watermark().settled_watermark());
      break;
    case v1::ChiefToPs::kSumStep:
      env_.tablet_work([this, asker, sum = message.sum_step()] { OnSumStep(asker, sum); });
      break;
    case v1::ChiefToPs::kCloseStep:
      env_.tablet_work([this, asker, close = message.close_step()] { OnCloseStep(asker, close); });
      break;
    case v1::ChiefToPs::kAbandonStep:
      env_.tablet_work(
          [this, abandon = message.abandon_step()] { data_path_.AbandonStep(abandon); });
      break;
    case v1::ChiefToPs::kLearningRates:
      // Behind the steps that the chief has closed before.
      env_.tablet_work(
          [this, asker, rates = message.learning_rates()] { OnLearningRates(asker, rates); });
      break;
    case v1::ChiefToPs::kHomes:
      env_.tablet_work([this, asker, take = message.homes()] { OnTakeHomes(asker, take); });
      break;
    case v1::ChiefToPs::kMakeCopy:
      env_.background(
          [this, asker, assign = message.make_copy().assign()] { OnMakeCopy(asker, assign); });
      break;
    case v1::ChiefToPs::kSnapshot:
      // Behind the steps that the chief has closed before.
      env_.tablet_work([this, asker, take = message.snapshot()] { OnSnapshot(asker, take); });
      break;
    case v1::ChiefToPs::kDropSnapshot:
      snapshots_.Cancel(message.drop_snapshot().cut());
      break;
    case v1::ChiefToPs::kShutdown:
      env_.log->Info("shutdown_asked", {{"job_finished", message.shutdown().job_finished()},
                                        {"reason", message.shutdown().reason()}});
      env_.on_shutdown(message.shutdown().job_finished(), message.shutdown().reason());
      break;
    default:
      AnswerError(asker, Unimplemented("ps:{} does not know this message", index_));
  }
}

void PsCore::OnClosed(Connection connection, ChiefLoss loss) {
  MutexLock lock(&mu_);
  if (adoption_.connection() == connection) {
    env_.log->Info("chief_gone", {{"generation", adoption_.generation()},
                                  {"silent", loss == ChiefLoss::kSilent}});
  }
  adoption_.OnClosed(connection, loss, env_.clock->Now());
  chief_connected_ = adoption_.connection().has_value();
}

std::string PsCore::Readiness() const {
  MutexLock lock(&mu_);
  return building_;
}

// ------------------------------------------------------------------ adoption

void PsCore::FillHello(const v1::AdoptPs& adopt, v1::PsHello* hello) {
  adoption_.FillHello(adopt, Role::kPs, options_, env_.clock->Now(), hello);
  hello->set_unix_socket(options_.unix_socket);
  hello->set_memory_pool(options_.memory_pool.name);
  hello->mutable_fingerprint()->set_intra_op_threads(1);
  hello->mutable_fingerprint()->set_device_kind("cpu");
  const auto tablets = data_path_.tablets();
  if (tablets != nullptr) {
    hello->set_job(adoption_.job());
    hello->set_timeline(tablets->timeline);
    hello->set_term(tablets->term);
    hello->set_settled_watermark(tablets->watermark.load(std::memory_order_acquire));
    for (const auto& tablet : tablets->tablets) hello->add_tablets(tablet->number());
    for (const auto& tablet : tablets->tablets) {
      *hello->add_homes() = HomeOf(tablet->number(), tablet->term(), index_);
    }
    for (const auto& copy : tablets->copies) {
      if (copy->fills()) continue;
      v1::TabletHome* const home = hello->add_homes();
      home->set_tablet(copy->tablet()->number());
      home->set_term(copy->term());
      home->set_copy(index_ + 1);
    }
    bool lacks = false;
    const CloseProgress steps = data_path_.KnownCloses(&lacks);
    *hello->mutable_position() = steps.position();
    AnswerClosed();
    hello->set_lacks_last_close(lacks || !closing_.empty());
    if (steps.newest != nullptr) *hello->mutable_last_close() = *steps.newest;
  }
}

void PsCore::AnswerHello(Connection connection, const v1::ChiefToPs& message, bool sees,
                         const absl::Status& status) {
  v1::PsToChief answer;
  answer.set_request(message.request());
  answer.set_generation(adoption_.generation());
  if (!status.ok()) StatusToProto(status, answer.mutable_status());
  FillHello(message.adopt(), answer.mutable_hello());
  answer.mutable_hello()->set_sees_checkpoint_dir(sees);
  env_.sink->Send(connection, answer);
}

bool PsCore::SeesCheckpointDir(const v1::AdoptPs& adopt) const {
  const absl::Status sees =
      adopt.directory_token().empty()
          ? InvalidArgument("the chief names no token of its checkpoint directory")
          : env_.store->CheckDirectory(adopt.checkpoint_dir(), adopt.directory_token());
  if (!sees.ok()) env_.log->Failure(LogLevel::kWarning, "checkpoint_dir_not_shared", sees);
  return sees.ok();
}

void PsCore::OnAdopt(Connection connection, const v1::ChiefToPs& message, bool sees) {
  const v1::AdoptPs& adopt = message.adopt();
  const Task own{Role::kPs, static_cast<int>(options_.index)};
  Adoption::Request request = Adoption::Request::Of(connection, message);
  request.probe |= !sees;  // this server writes below that directory
  const Adoption::Answer answer = adoption_.Handle(request, own, env_.clock->Now(), env_.log);
  chief_connected_ = adoption_.connection().has_value();
  // This error alone is reported: `sees` may be of another cluster.
  if (!answer.refused.ok()) return AnswerHello(connection, message, /*sees=*/true, answer.refused);
  if (!answer.fenced.empty()) return SendFenced(connection, message.request(), answer.fenced);
  if (answer.superseded.has_value()) SendFenced(*answer.superseded, 0, kTakenOver);
  if (answer.new_job) {
    DropBuild();
    snapshots_.CancelAll();
    copies_.Keep({});
    data_path_.Serve(nullptr);
    data_path_.Reset();
  }
  if (answer.adopted) {
    reports_ = ProtocolVersion::Of(adopt) >= kProgressProtocol;
    index_ = adopt.renumbered() ? static_cast<uint32_t>(adopt.expected().index()) : options_.index;
    checkpoint_dir_ = adopt.checkpoint_dir();
    data_path_.Fence(message.generation());
    WakeParked();
    env_.log->Info("adopted", {{"generation", message.generation()},
                               {"job", adopt.job()},
                               {"takeover", adopt.takeover()}});
  }
  AnswerHello(connection, message, sees);
}

void PsCore::SendFenced(Connection connection, uint64_t request, const std::string& why) {
  env_.sink->Send(connection, FencedMessage<v1::PsToChief>(
                                  adoption_, {Role::kPs, static_cast<int>(index_)}, request, why));
}

void PsCore::Answer(const Asker& asker, v1::PsToChief* message) {
  if (!adoption_.connection().has_value() || adoption_.generation() != asker.generation) return;
  message->set_request(asker.request);
  message->set_generation(adoption_.generation());
  env_.sink->Send(*adoption_.connection(), *message);
}

void PsCore::AnswerError(const Asker& asker, const absl::Status& status) {
  v1::PsToChief message;
  StatusToProto(status, message.mutable_status());
  Answer(asker, &message);
}

// ------------------------------------------------------------------ assignment

// The server stops serving the previous tablets and drops their snapshots. The background thread
// builds the new tablets; OnBuilt serves them unless a newer assignment has come.
void PsCore::OnAssign(const Asker& asker, const v1::AssignTablets& assign) {
  if (assign.ps() != index_) {
    AnswerError(asker,
                FailedPrecondition("tablets of ps:{} assigned to ps:{}", assign.ps(), index_));
    return;
  }
  const auto now = data_path_.tablets();
  if (now != nullptr && assign.timeline() < now->timeline) {
    AnswerError(asker, FailedPrecondition("timeline {} assigned, but {} is served",
                                          assign.timeline(), now->timeline));
    return;
  }
  env_.log->Info("assigning", {{"timeline", assign.timeline()},
                               {"term", assign.term()},
                               {"restore_from", assign.restore_from()},
                               {"initial_values", assign.initial_values()}});
  snapshots_.CancelAll();
  copies_.Keep({});
  data_path_.Serve(nullptr);
  WakeParked();
  Assignment before = std::exchange(
      assignment_,
      {asker, std::make_shared<v1::AssignTablets>(assign), TabletBuilder::ContentsOf(assign)});
  if (before.assign != nullptr) {
    AnswerError(before.asker, Aborted("a newer assignment has come"));
    if (before.contents == assignment_.contents) {
      return env_.log->Info("build_continued", {{"timeline", assign.timeline()}});
    }
  }
  building_ = assign.restore_from().empty() ? "making its tablets"
                                            : "restoring its tablets from " + assign.restore_from();
  const uint64_t build = ++build_;
  env_.background([this, build, assign = assignment_.assign] { Build(build, *assign); });
}

void PsCore::DropBuild() {
  ++build_;
  assignment_ = {};
  building_.clear();
}

void PsCore::Build(uint64_t build, const v1::AssignTablets& assign) {
  TimePoint last = env_.clock->Now();
  OnBuilt(build, builder_.Build(assign, [&](uint64_t bytes) -> absl::Status {
    if (build != build_) return Aborted("a newer assignment has come");
    if (env_.clock->Now() - last < kReportEvery) return absl::OkStatus();
    Asker asker;
    {
      MutexLock lock(&mu_);
      asker = assignment_.asker;
    }
    Report(asker, bytes, &last);
    return absl::OkStatus();
  }));
}

void PsCore::Report(const Asker& asker, uint64_t bytes, TimePoint* last) {
  const TimePoint now = env_.clock->Now();
  if (now - *last < kReportEvery) return;
  // Whoever holds it may wait for the close of the step that is reported. The next report is soon.
  if (!mu_.TryLock()) return;
  *last = now;
  v1::PsToChief message;
  message.mutable_progress()->set_bytes(bytes);
  if (reports_) Answer(asker, &message);
  mu_.Unlock();
}

DataPath::Progress PsCore::Reporter(const Asker& asker) {
  return [this, asker, last = env_.clock->Now()](uint64_t bytes) mutable {
    Report(asker, bytes, &last);
  };
}

void PsCore::OnBuilt(uint64_t build, absl::StatusOr<std::shared_ptr<TabletSet>> tablets) {
  MutexLock lock(&mu_);
  if (build != build_) return;
  const Assignment assigned = std::exchange(assignment_, {});
  building_.clear();
  absl::Status status = tablets.status();
  if (status.ok()) {
    status = TabletBuilder::Finish(*assigned.assign, assigned.asker.generation, tablets->get());
  }
  if (!status.ok()) {
    env_.log->Failure(LogLevel::kError, "assignment_failed", status);
    AnswerError(assigned.asker, status);
    return;
  }
  v1::PsToChief message;
  message.mutable_assigned()->set_timeline((*tablets)->timeline);
  message.mutable_assigned()->set_initial_values(assigned.assign->initial_values());
  uint64_t values = 0;
  for (const auto& tablet : (*tablets)->tablets) {
    message.mutable_assigned()->add_tablets(tablet->number());
    values += tablet->bytes();
  }
  for (const auto& copy : (*tablets)->copies) values += copy->tablet()->bytes();
  memory_.SetValues(values);
  env_.log->Info("serving",
                 {{"timeline", (*tablets)->timeline}, {"tablets", (*tablets)->tablets.size()}});
  data_path_.Serve(*std::move(tablets));
  // Another chief may have taken over while they were built.
  data_path_.Fence(adoption_.generation());
  Answer(assigned.asker, &message);
}

// It waits behind a snapshot that the chief asked for before: the cut names closures as pending
// that may be settled since then. Tablets that are assigned meanwhile have another timeline.
void PsCore::OnWatermark(uint64_t watermark) {
  env_.tablet_work([this, watermark, served = std::weak_ptr(data_path_.tablets())] {
    const std::shared_ptr<const TabletSet> tablets = served.lock();
    if (tablets == nullptr) return;
    tablets->AdvanceWatermark(watermark);
    metrics_.watermark->Set(static_cast<double>(watermark));
  });
}

// ------------------------------------------------------------------ synchronous steps

void PsCore::OnSumStep(const Asker& asker, const v1::SumStep& sum) {
  v1::PsToChief message;
  const absl::Status summed =
      data_path_.SumStep(asker.generation, sum, Reporter(asker), message.mutable_step_summed());
  MutexLock lock(&mu_);
  if (summed.ok()) {
    Answer(asker, &message);
  } else if (!absl::IsAborted(summed)) {
    env_.log->Failure(LogLevel::kError, "step_not_summed", summed);
    AnswerError(asker, summed);
  }
}

void PsCore::OnCloseStep(const Asker& asker, const v1::CloseStep& close) {
  AwaitRoomToClose();
  Closing closing{.asker = asker, .step = close.step()};
  const absl::Status closed = data_path_.CloseStep(asker.generation, close, Reporter(asker),
                                                   &closing.marks, &closing.log_lines);
  {
    MutexLock lock(&mu_);
    if (closed.ok()) {
      closing_.push_back(std::move(closing));
      closing_waits_ = true;  // before the look at what copies have
      AnswerClosed();
    } else if (!absl::IsAborted(closed)) {
      env_.log->Failure(LogLevel::kError, "step_not_closed", closed);
      AnswerError(asker, closed);
    }
  }
  if (env_.on_step_open) env_.on_step_open();
}

void PsCore::AnswerClosed() {
  std::erase_if(closing_, [this](Closing& closing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const CopyLog::Answer answer = closing.marks.MayAnswer();
    if (answer != CopyLog::Answer::kMay) return answer == CopyLog::Answer::kVoid;
    data_path_.WriteLog(&closing.log_lines);
    v1::PsToChief message;
    message.mutable_step_closed()->set_step(closing.step);
    Answer(closing.asker, &message);
    return true;
  });
  closing_waits_ = !closing_.empty();
}

void PsCore::OnLearningRates(const Asker& asker, const v1::LearningRates& rates) {
  const absl::Status set = data_path_.SetLearningRates(asker.generation, rates);
  MutexLock lock(&mu_);
  v1::PsToChief message;
  if (set.ok()) Answer(asker, &message);
}

// ------------------------------------------------------------------ copies

void PsCore::OnTakeHomes(const Asker& asker, const v1::TakeHomes& take) {
  const absl::Status taken = data_path_.TakeHomes(
      asker.generation, take,
      [&](const v1::TabletHome& home) { return copies_.LogFor(home, take.timeline()); });
  if (taken.ok()) {
    const auto logs = data_path_.tablets()->logs;
    copies_.Keep(logs);
    // The chief may not have heard it.
    for (const auto& log : logs) {
      if (log->is_complete()) OnCopyComplete(HomeOf(log->tablet(), log->term(), 0));
    }
  }
  v1::PsToChief message;
  message.mutable_homes_taken()->set_timeline(take.timeline());
  {
    MutexLock lock(&mu_);
    if (taken.ok()) {
      Answer(asker, &message);
    } else if (!absl::IsAborted(taken)) {
      env_.log->Failure(LogLevel::kError, "homes_not_taken", taken);
      AnswerError(asker, taken);
    }
  }
  if (env_.on_step_open) env_.on_step_open();
}

// A close may have to wait for the lock, which others hold for long.
void PsCore::OnAcknowledged() {
  if (closing_waits_) return PostCopied();
  if (env_.on_step_open) env_.on_step_open();
}

void PsCore::PostCopied() {
  if (copied_posted_.exchange(true)) return;
  env_.tablet_work([this] { OnCopied(); });
}

void PsCore::OnCopied() {
  copied_posted_.store(false);
  {
    MutexLock lock(&mu_);
    AnswerClosed();
  }
  if (env_.on_step_open) env_.on_step_open();
}

// Runs in `background`.
void PsCore::OnMakeCopy(const Asker& asker, const v1::AssignTablets& assign) {
  absl::StatusOr<std::shared_ptr<TabletSet>> made = builder_.MakeCopies(assign);
  absl::Status status = made.status();
  if (status.ok()) {
    for (const auto& copy : (*made)->copies) {
      copy->tablet()->Fence(asker.generation);
      // The primary opens its stream when it has heard of the copy from the chief.
      copy->RefuseStreamsUpTo(copy_streams_);
    }
    status = data_path_.AddCopies(asker.generation, *made);
  }
  MutexLock lock(&mu_);
  if (!status.ok()) {
    env_.log->Failure(LogLevel::kWarning, "copy_not_made", status);
    return AnswerError(asker, status);
  }
  memory_.SetValues(data_path_.ValueBytes());
  v1::PsToChief message;
  message.mutable_assigned()->set_timeline(assign.timeline());
  for (const auto& copy : (*made)->copies) {
    message.mutable_assigned()->add_tablets(copy->tablet()->number());
  }
  Answer(asker, &message);
}

void PsCore::OnCopyComplete(const v1::TabletHome& home) {
  MutexLock lock(&mu_);
  v1::PsToChief message;
  message.mutable_copy_complete()->set_tablet(home.tablet());
  message.mutable_copy_complete()->set_term(home.term());
  Answer({adoption_.generation(), 0}, &message);
}

void PsCore::OnCopyLost(const v1::TabletHome& home, const absl::Status& why) {
  MutexLock lock(&mu_);
  v1::PsToChief message;
  message.mutable_copy_lost()->set_tablet(home.tablet());
  message.mutable_copy_lost()->set_term(home.term());
  message.mutable_copy_lost()->set_why(std::string(why.message()));
  env_.log->Failure(LogLevel::kWarning, "copy_lost", why);
  Answer({adoption_.generation(), 0}, &message);
}

v1::CopyAck PsCore::OnCopyEntry(const v1::CopyEntry& entry, const TabletCopy::Payload& payload) {
  v1::CopyAck ack;
  const absl::StatusOr<TabletCopy::Replayed> done = data_path_.Replay(entry, payload);
  if (done.ok()) {
    ack.set_number(done->done);
    ack.set_state(done->state);
  } else {
    StatusToProto(done.status(), ack.mutable_error());
  }
  return ack;
}

void PsCore::WakeParked() {
  if (env_.on_step_open) env_.tablet_work(env_.on_step_open);
}

// ------------------------------------------------------------------ snapshots

// Values may have to come from a device: meanwhile the lock is free for other messages. Tablets
// that are assigned meanwhile end it.
void PsCore::OnSnapshot(const Asker& asker, const v1::TakeSnapshot& take) {
  const auto tablets = data_path_.tablets();
  auto job = std::make_shared<SnapshotJob>();
  job->cut = take.cut();
  job->directory = take.directory();
  v1::PsToChief taken;
  taken.mutable_snapshot_taken()->set_cut(take.cut());
  absl::Status status;
  if (tablets == nullptr || tablets->timeline != take.timeline()) {
    status = FailedPrecondition("it is of timeline {}, and {} is served", take.timeline(),
                                tablets == nullptr ? "none" : std::to_string(tablets->timeline));
  } else {
    status = CheckSnapshotDirectory(job->directory);
    if (status.ok()) {
      status = TakeSnapshot(*tablets, take, job.get(), taken.mutable_snapshot_taken());
    }
  }
  MutexLock lock(&mu_);
  if (status.ok() && tablets != data_path_.tablets()) status = Aborted("other tablets are served");
  if (!status.ok()) {
    env_.log->Failure(LogLevel::kError, "snapshot_failed", status);
    return AnswerError(
        asker, Annotate(std::move(status), fmt::format("cut {}, ps:{}", take.cut(), index_)));
  }
  job->ps = index_;
  job->on_progress = [this, asker, last = env_.clock->Now(),
                      woken = uint64_t{0}](uint64_t bytes) mutable {
    Report(asker, bytes, &last);
    if (bytes - woken < kWakeEveryBytes) return;
    woken = bytes;
    WakeParked();
  };
  COHORT_CRASH_POINT("ps.snapshot.taken");
  Answer(asker, &taken);
  snapshots_.Add(job);
  env_.background([this, asker, job] { WriteSnapshot(asker, job); });
}

absl::Status PsCore::CheckSnapshotDirectory(const std::string& directory) {
  MutexLock lock(&mu_);
  const std::string parent = checkpoint_dir_ + "/";
  const bool below = directory.starts_with(parent);
  const std::string name = below ? directory.substr(parent.size()) : "";
  const bool is_name =
      !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
  if (is_name) return absl::OkStatus();
  return InvalidArgument(
      "the directory {} does not lie directly in {}, for which the chief adopted "
      "this server",
      directory, checkpoint_dir_);
}

absl::Status PsCore::TakeSnapshot(const TabletSet& tablets, const v1::TakeSnapshot& take,
                                  SnapshotJob* job, v1::SnapshotTaken* taken) {
  SnapshotRequest request;
  request.checkpoint = take.directory().substr(take.directory().rfind('/') + 1);
  // Averages change without updates of their rows.
  if (!take.averages()) request.base = take.base();
  request.increments = take.increments() && !take.averages();
  for (const auto& tablet : tablets.tablets) {
    COHORT_ASSIGN_OR_RETURN(
        TabletSnapshot snapshot,
        tablet->Snapshot(tablets.watermark.load(std::memory_order_acquire), request));
    *taken->add_tablets() = *snapshot.cut;
    if (take.averages()) snapshot.TakeAverages();
    job->tablets.push_back(std::move(snapshot));
  }
  return absl::OkStatus();
}

void PsCore::WriteSnapshot(const Asker& asker, const std::shared_ptr<SnapshotJob>& job) {
  const TimePoint begin = env_.clock->Now();
  auto files =
      job->cancelled
          ? absl::StatusOr<std::vector<v1::SnapshotFile>>(Cancelled("cut {} was dropped", job->cut))
          : env_.store->Write(job.get());
  job->DropAll();
  data_path_.Reclaim();
  pool_->Trim();
  MutexLock lock(&mu_);
  AnswerSnapshot(asker, *job, ToSeconds(env_.clock->Now() - begin), std::move(files));
  // A thread that waits for the snapshot may close the chief's stream now.
  snapshots_.Remove(job);
  WakeParked();
}

void PsCore::AwaitRoomToClose() {
  if (!snapshots_.HoldAny() || options_.close_patience == Duration::zero()) return;
  snapshots_.WaitUntil(
      [&] { return !snapshots_.HoldAny() || admission().MayCopy(data_path_.BytesToCopyAtClose()); },
      env_.clock->Now() + options_.close_patience);
}

void PsCore::AnswerSnapshot(const Asker& asker, const SnapshotJob& job, double seconds,
                            absl::StatusOr<std::vector<v1::SnapshotFile>> files) {
  if (!files.ok()) {
    if (!job.cancelled) {
      metrics_.snapshots_failed->Increment();
      env_.log->Failure(LogLevel::kError, "snapshot_failed", files.status());
    }
    AnswerError(asker, Annotate(files.status(), fmt::format("cut {}", job.cut)));
    return;
  }
  COHORT_CRASH_POINT("ps.snapshot.written");
  metrics_.snapshots_written->Increment();
  metrics_.snapshot_seconds->Observe(seconds);
  env_.log->Info("snapshot_written", {{"cut", job.cut}, {"seconds", seconds}});
  v1::PsToChief written;
  written.mutable_snapshot_written()->set_cut(job.cut);
  for (v1::SnapshotFile& file : *files) {
    *written.mutable_snapshot_written()->add_files() = std::move(file);
  }
  // The last cut ends the job: its report has what the figures were then.
  if (env_.figures) {
    v1::PsToChief figures;
    *figures.mutable_pong()->mutable_figures() = env_.figures();
    Answer({.generation = asker.generation}, &figures);
  }
  Answer(asker, &written);
}

std::string PsCore::StatusText() const {
  MutexLock lock(&mu_);
  std::string text =
      fmt::format("ps:{} incarnation {:016x}\nchief: generation {}, job '{}', {}\n", index_,
                  options_.incarnation, adoption_.generation(), adoption_.job(),
                  adoption_.connection().has_value() ? "connected" : "not connected");
  const auto tablets = data_path_.tablets();
  if (tablets == nullptr) return text + "serves nothing\n";
  text += fmt::format("timeline {}, term {}, settled watermark {}\n", tablets->timeline,
                      tablets->term, tablets->watermark.load());
  for (const auto& tablet : tablets->tablets) {
    text += fmt::format("tablet {}: version {}, blocks copied on write {}\n", tablet->number(),
                        tablet->version(), tablet->copied_blocks());
  }
  return text;
}

}  // namespace cohort
