#include "worker/worker_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/graph/program_proto.h"
#include "common/graph/pull_ahead.h"

namespace cohort {
namespace {

// Chiefs probe each second, or more often.
constexpr Duration kProbeCounts = std::chrono::seconds(5);

}  // namespace

WorkerCore::WorkerCore(const Options& options, const Clock* clock, Logger* log,
                       WorkerEffects* effects)
    : options_(options),
      clock_(clock),
      log_(log),
      effects_(effects),
      adoption_(options.chief_timeout),
      closures_(options.closures) {}

void WorkerCore::OnMessage(Connection connection, v1::ChiefToWorker* message) {
  MutexLock lock(&mu_);
  if (message->has_adopt()) return OnAdopt(connection, *message);
  if (message->has_ping()) {
    v1::WorkerToChief pong;
    pong.set_request(message->request());
    pong.set_generation(adoption_.generation());
    pong.mutable_pong()->set_sent_unix_micros(message->ping().sent_unix_micros());
    *pong.mutable_pong()->mutable_figures() = effects_->Figures();
    effects_->Send(connection, pong);
    return;
  }
  if (message->generation() != adoption_.generation() || adoption_.connection() != connection) {
    return SendFenced(connection, message->request(),
                      "the chief is not adopted on this connection");
  }
  switch (message->body_case()) {
    case v1::ChiefToWorker::kProgram:
      return OnProgram(message->request(), *message);
    case v1::ChiefToWorker::kResource:
      return OnCreateResource(message->request(), message);
    case v1::ChiefToWorker::kRoutes:
      return OnRoutes(message);
    case v1::ChiefToWorker::kDispatch:
      return OnDispatch(message);
    case v1::ChiefToWorker::kCancel:
      return OnCancel(*message);
    case v1::ChiefToWorker::kShutdown:
      log_->Info("shutdown_asked", {{"job_finished", message->shutdown().job_finished()},
                                    {"reason", message->shutdown().reason()}});
      return effects_->Shutdown(message->shutdown().job_finished(), message->shutdown().reason());
    default:
      return Answer(message->request(),
                    Unimplemented("worker:{} does not know this message", options_.index));
  }
}

void WorkerCore::OnClosed(Connection connection, ChiefLoss loss) {
  MutexLock lock(&mu_);
  if (adoption_.connection() == connection) {
    log_->Info("chief_gone", {{"generation", adoption_.generation()},
                              {"silent", loss == ChiefLoss::kSilent},
                              {"in_hand", closures_.queued() + closures_.running()}});
  }
  adoption_.OnClosed(connection, loss, clock_->Now());
  closed_.SignalAll();
}

void WorkerCore::OnAdopt(Connection connection, const v1::ChiefToWorker& message) {
  const v1::AdoptWorker& adopt = message.adopt();
  if (adopt.probe()) probed_at_ = clock_->Now();
  if (adopt.probe() && adoption_.connection().has_value()) watched_at_ = clock_->Now();
  const Adoption::Answer adoption =
      adoption_.Handle(Adoption::Request::Of(connection, message), {Role::kWorker, options_.index},
                       clock_->Now(), log_);
  if (!adoption.fenced.empty()) return SendFenced(connection, message.request(), adoption.fenced);
  if (adoption.superseded.has_value()) SendFenced(*adoption.superseded, 0, kTakenOver);
  if (adoption.new_job) StartNewJob();
  if (adoption.adopted) {
    seed_ = adopt.seed();
    pull_ahead_ = std::min(adopt.pull_ahead(), kMaxPullAhead);
    effects_->GenerationChanged(adoption_.generation());
    log_->Info("adopted", {{"generation", adoption_.generation()},
                           {"job", adoption_.job()},
                           {"in_hand", closures_.queued() + closures_.running()},
                           {"results", closures_.kept()}});
  }
  v1::WorkerToChief answer;
  answer.set_request(message.request());
  answer.set_generation(adoption_.generation());
  if (!adoption.refused.ok()) StatusToProto(adoption.refused, answer.mutable_status());
  FillHello(adopt, answer.mutable_hello());
  if (adoption.adopted) closures_.FillHello(answer.mutable_hello());
  effects_->Send(connection, answer);
}

void WorkerCore::FillHello(const v1::AdoptWorker& adopt, v1::WorkerHello* hello) {
  adoption_.FillHello(adopt, Role::kWorker, options_, clock_->Now(), hello);
  hello->set_job(adoption_.job());
  hello->set_leaving(leaving_);
  hello->set_timeline(timeline_);
  for (const auto& [fingerprint, program] : programs_) hello->add_programs(fingerprint);
  resources_.FillHello(hello);
  hello->mutable_classes()->Add(options_.classes.begin(), options_.classes.end());
  hello->mutable_fingerprint()->set_intra_op_threads(static_cast<int>(options_.cores));
  hello->mutable_fingerprint()->set_device_kind(options_.device_kind);
}

void WorkerCore::SendFenced(Connection connection, uint64_t request, const std::string& why) {
  log_->Warning("fenced", {{"why", why}, {"generation", adoption_.generation()}});
  effects_->Send(connection, FencedMessage<v1::WorkerToChief>(
                                 adoption_, {Role::kWorker, options_.index}, request, why));
}

void WorkerCore::OnProgram(uint64_t request, const v1::ChiefToWorker& message) {
  const std::string& fingerprint = message.program().fingerprint();
  if (programs_.count(fingerprint) != 0) return Answer(request, absl::OkStatus());
  auto program = ProgramFromProto(message.program().program());
  if (!program.ok()) {
    return Answer(request, Annotate(program.status(), fmt::format("worker:{}: program {}",
                                                                  options_.index, fingerprint)));
  }
  if (const std::string own = Fingerprint(*program); own != fingerprint) {
    return Answer(request,
                  InvalidArgument("worker:{}: the program sent as {} has the fingerprint {}",
                                  options_.index, fingerprint, own));
  }
  log_->Info("program_registered", {{"program", program->name}, {"fingerprint", fingerprint}});
  programs_[fingerprint] = std::make_shared<const Program>(*std::move(program));
  Answer(request, absl::OkStatus());
}

void WorkerCore::OnCreateResource(uint64_t request, v1::ChiefToWorker* message) {
  if (resources_.Request(request, std::move(*message->mutable_resource()))) {
    return Answer(request, absl::OkStatus());
  }
  WakeIfIdle();
}

void WorkerCore::OnRoutes(v1::ChiefToWorker* message) {
  auto routes = std::make_shared<v1::Routes>();
  routes->Swap(message->mutable_routes());
  const uint64_t timeline = routes->timeline();
  const uint64_t request = message->request();
  if (RaiseTimeline(timeline)) effects_->Interrupt();
  effects_->RoutesChanged(std::move(routes));
  Answer(request, absl::OkStatus());
}

void WorkerCore::OnDispatch(v1::ChiefToWorker* message) {
  const uint64_t before = closures_.watermark();
  if (closures_.Dispatch(message->mutable_dispatch(), NowUs())) effects_->Interrupt();
  if (closures_.watermark() != before) effects_->WatermarkChanged(closures_.watermark());
  if (closures_.queued() > 0) COHORT_CRASH_POINT("worker.closure.received");
  if (!draining_.empty()) GiveBackQueued();
  SendResultsIf(closures_.ShouldReport(NowUs()));
  if (closures_.queued() > 0) WakeIfIdle();
}

void WorkerCore::OnCancel(const v1::ChiefToWorker& message) {
  const v1::CancelClosures& cancel = message.cancel();
  if (cancel.queued_only()) {
    closures_.GiveBack({cancel.ids().begin(), cancel.ids().end()}, NowUs());
    SendResultsIf(true);
    return Answer(message.request(), absl::OkStatus());
  }
  bool running = false;
  if (cancel.all_training()) {
    running = RaiseTimeline(cancel.timeline());
  }
  running |= closures_.Cancel({cancel.ids().begin(), cancel.ids().end()}, NowUs());
  if (running) effects_->Interrupt();
  SendResultsIf(true);
  Answer(message.request(), absl::OkStatus());
}

// Returns true if the running closure belongs to an older timeline.
bool WorkerCore::RaiseTimeline(uint64_t timeline) {
  timeline_ = std::max(timeline_, timeline);
  const bool running = closures_.DropOlder(timeline);
  effects_->WatermarkChanged(closures_.watermark());
  return running;
}

void WorkerCore::StartNewJob() {
  log_->Info("new_job", {{"job", adoption_.job()}});
  ++job_;
  timeline_ = 0;
  programs_.clear();
  resources_.Clear();
  closures_.Clear();
  effects_->WatermarkChanged(0);
  if (closures_.running() > 0) effects_->Interrupt();
}

Work WorkerCore::NextWork(bool may_wait) {
  MutexLock lock(&mu_);
  Work work;
  work.job = job_;
  work.seed = seed_;
  work.pull_ahead = pull_ahead_;
  step_idle_ = false;
  work.resource = resources_.TakeRequested();
  if (work.resource != nullptr) {
    work.kind = Work::Kind::kResource;
    return work;
  }
  work.closure = closures_.Take();
  if (work.closure != nullptr) {
    work.kind = Work::Kind::kClosure;
    const auto program = programs_.find(work.closure->program());
    if (program != programs_.end()) work.program = program->second;
    if (const v1::Closure* next = closures_.Peek(); next != nullptr && next->leases_size() > 0) {
      work.next_closure = next->id();
      work.next_resource = next->resource();
      work.next_leases.assign(next->leases().begin(), next->leases().end());
    }
    return work;
  }
  SendResultsIf(closures_.ShouldReport(NowUs()));
  if (!draining_.empty()) {
    work.kind = Work::Kind::kStop;
    return work;
  }
  step_idle_ = may_wait;
  return work;
}

bool WorkerCore::ShouldStop(uint64_t closure) const {
  MutexLock lock(&mu_);
  return closures_.ShouldStop(closure);
}

void WorkerCore::Finish(v1::ClosureResult result, const ReadPosition& read) {
  COHORT_CRASH_POINT("worker.result.made");
  MutexLock lock(&mu_);
  if (result.status().code() == 0) resources_.MoveReader(read);
  closures_.Finish(std::move(result), NowUs());
  SendResultsIf(closures_.ShouldReport(NowUs()));
}

void WorkerCore::OnResource(const v1::CreateResource& resource, const absl::Status& status) {
  MutexLock lock(&mu_);
  const std::optional<uint64_t> request = resources_.OnMade(resource, status.ok());
  if (!request.has_value()) return;
  if (!status.ok()) log_->Failure(LogLevel::kError, "resource_failed", status);
  Answer(*request, status);
}

void WorkerCore::OnUnreachable(const absl::Status& status) {
  const auto failure = GetFailure(status);
  if (!failure.has_value()) return;
  MutexLock lock(&mu_);
  log_->Failure(LogLevel::kWarning, "ps_unreachable", status);
  if (!adoption_.connection().has_value()) return;
  v1::WorkerToChief message;
  message.set_generation(adoption_.generation());
  v1::PsUnreachable* unreachable = message.mutable_ps_unreachable();
  unreachable->set_ps(static_cast<uint32_t>(failure->index));
  unreachable->set_incarnation(failure->incarnation);
  unreachable->set_error(std::string(status.message()));
  effects_->Send(*adoption_.connection(), message);
}

void WorkerCore::Tick() {
  MutexLock lock(&mu_);
  SendResultsIf(closures_.ShouldReport(NowUs()));
}

void WorkerCore::Drain(const std::string& why) {
  MutexLock lock(&mu_);
  draining_ = why;
  GiveBackQueued();
  SendResultsIf(true);
  WakeIfIdle();
}

void WorkerCore::StopRunning() {
  MutexLock lock(&mu_);
  closures_.StopRunning();
  effects_->Interrupt();
}

void WorkerCore::Flush() {
  MutexLock lock(&mu_);
  SendResultsIf(true);
}

void WorkerCore::GiveBackQueued() {
  // The chief sets a worker aside that returns Unavailable.
  const absl::Status status = GivenBack(absl::StatusCode::kUnavailable, draining_);
  closures_.GiveBackQueued(
      [&](v1::ClosureResult* result) { StatusToProto(status, result->mutable_status()); }, NowUs());
}

absl::Status WorkerCore::GivenBack(absl::StatusCode code, const std::string& why) const {
  absl::Status status = MakeStatus(code, "worker:{}: {}", options_.index, why);
  SetFailure(&status, {.role = "worker",
                       .index = options_.index,
                       .incarnation = options_.incarnation,
                       .retryable = true});
  return status;
}

void WorkerCore::WakeIfIdle() {
  if (!std::exchange(step_idle_, false)) return;
  effects_->WakeStep();
}

void WorkerCore::Answer(uint64_t request, const absl::Status& status) {
  if (request == 0 || !adoption_.connection().has_value()) return;
  v1::WorkerToChief message;
  message.set_request(request);
  message.set_generation(adoption_.generation());
  StatusToProto(status, message.mutable_status());
  effects_->Send(*adoption_.connection(), message);
}

// Without a chief nothing is sent: the next one gets everything in the hello.
void WorkerCore::SendResultsIf(bool due) {
  if (!due || !adoption_.connection().has_value()) return;
  v1::WorkerToChief message;
  if (!closures_.TakeUnreported(message.mutable_results())) return;
  resources_.ReportReaders(message.mutable_results());
  message.set_generation(adoption_.generation());
  effects_->Send(*adoption_.connection(), message);
}

bool WorkerCore::adopted() const {
  MutexLock lock(&mu_);
  return adoption_.connection().has_value();
}

bool WorkerCore::Leave() {
  MutexLock lock(&mu_);
  // The task of the first replica runs the chief.
  if (!adoption_.connection().has_value() || !CountsStill(watched_at_) || options_.index == 0) {
    return false;
  }
  leaving_ = true;
  log_->Info("leaving", {{"generation", adoption_.generation()}});
  return true;
}

bool WorkerCore::AwaitRelease(TimePoint deadline) {
  MutexLock lock(&mu_);
  while (adoption_.connection().has_value() && closed_.WaitUntil(&mu_, deadline)) {
  }
  return !adoption_.connection().has_value();
}

bool WorkerCore::probed() const {
  MutexLock lock(&mu_);
  return CountsStill(probed_at_);
}

bool WorkerCore::CountsStill(std::optional<TimePoint> probe) const {
  return probe.has_value() && clock_->Now() - *probe < kProbeCounts;
}

bool WorkerCore::idle() const {
  MutexLock lock(&mu_);
  return closures_.queued() == 0 && closures_.running() == 0;
}

std::string WorkerCore::StatusText() const {
  MutexLock lock(&mu_);
  return fmt::format(
      "worker:{}\nincarnation {:016x}\njob {}\ngeneration {}\nchief {}\ntimeline {}\n"
      "settled watermark {}\nclosures queued {}, running {}, results kept {}\n"
      "programs {}\nresources {}\n",
      options_.index, options_.incarnation, adoption_.job(), adoption_.generation(),
      adoption_.connection().has_value() ? "connected" : "not connected", timeline_,
      closures_.watermark(), closures_.queued(), closures_.running(), closures_.kept(),
      programs_.size(), resources_.size());
}

int64_t WorkerCore::NowUs() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock_->Now().time_since_epoch())
      .count();
}

}  // namespace cohort
