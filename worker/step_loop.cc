#include "worker/step_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/data/stream_files.h"
#include "common/exchange/hot_rows.h"
#include "common/exec/finite_pushes.h"
#include "common/graph/program_proto.h"

namespace cohort {
namespace {

bool NamesServer(const absl::Status& status) {
  const auto failure = GetFailure(status);
  return failure.has_value() && failure->role == "ps";
}

}  // namespace

StepMetrics::StepMetrics(MetricsRegistry* registry)
    : steps(registry->AddCounter("cohort_worker_steps_total", "Steps that were run")),
      closures(registry->AddCounter("cohort_worker_closures_total", "Closures that succeeded")),
      failed(registry->AddCounter("cohort_worker_closures_failed_total",
                                  "Closures that failed or were given back")),
      examples(registry->AddCounter("cohort_worker_examples_total", "Examples that were read")),
      applied(registry->AddCounter("cohort_worker_pushes_applied_total",
                                   "Push sections that a tablet applied")),
      duplicates(registry->AddCounter("cohort_worker_pushes_duplicate_total",
                                      "Push sections that a tablet had applied before")),
      pulled_ahead(registry->AddCounter("cohort_worker_pulled_ahead_total",
                                        "Steps whose pull began before an earlier step had run")),
      kept_rows(registry->AddCounter("cohort_worker_hot_rows_total",
                                     "Rows that steps read from copies in the worker")),
      kept_bytes(registry->AddCounter("cohort_worker_hot_bytes_total",
                                      "Bytes of these rows and their keys, which nobody sent")),
      waits(registry->AddCounter("cohort_worker_waits_total", "Sleeps because there was no work")),
      not_finite(registry->AddCounter("cohort_worker_not_finite_steps_total",
                                      "Steps in float16 whose gradient was not finite")),
      device_bytes(registry->AddCounter("cohort_worker_device_bytes_total",
                                        "Bytes copied between the host and devices")),
      exchange_seconds(
          registry->AddHistogram("cohort_worker_exchange_seconds",
                                 "Time that the step thread spends on one push and pull "
                                 "with all servers",
                                 ExponentialBounds(20e-6, 2, 16))),
      run_seconds(registry->AddHistogram("cohort_worker_run_seconds", "Time of one step's compute",
                                         ExponentialBounds(20e-6, 2, 16))) {}

absl::Status StepVariables::Compile(const Work& work, const CompileOptions& options,
                                    StepProgram* program) {
  COHORT_ASSIGN_OR_RETURN(program->executable, Executable::Compile(*work.program, options));
  program->access = ForProgram(program->executable->program().variables);
  return absl::OkStatus();
}

StepLoop::StepLoop(const Options& options, WorkerCore* core, StepVariables* variables,
                   const Clock* clock, StepMetrics* metrics, Logger* log)
    : options_(options),
      core_(core),
      variables_(variables),
      clock_(clock),
      metrics_(metrics),
      log_(log),
      resources_(options.data) {}

void StepLoop::Run() {
  while (!stopped_) {
    if (RunOnce() || stopped_) continue;
    metrics_->waits->Increment();
    variables_->Wait(clock_->Now() + options_.idle_wait);
  }
}

bool StepLoop::RunOnce() {
  if (ahead_.open() == nullptr && !ahead_.full()) {
    const bool idle = ahead_.empty() && !pending_.has_value();
    const Work work = core_->NextWork(/*may_wait=*/idle);
    if (work.job != job_) {
      DropPrograms();
      resources_.Clear();
      job_ = work.job;
    }
    if (work.kind == Work::Kind::kResource) {
      MakeResource(work);
      return true;
    }
    if (work.kind == Work::Kind::kClosure) {
      Open(work);
    } else if (idle) {
      stopped_ = work.kind == Work::Kind::kStop;
      return false;
    }
  }
  Advance();
  return true;
}

void StepLoop::MakeResource(const Work& work) {
  const absl::Status made = resources_.Create(*work.resource);
  if (made.ok()) {
    log_->Info("resource_made", {{"name", work.resource->name()},
                                 {"begin", work.resource->begin()},
                                 {"timeline", work.resource->timeline()}});
  }
  core_->OnResource(*work.resource, made);
}

StepProgram* StepLoop::Compile(const Work& work) {
  const bool is_summed = work.closure->step().step() != 0;
  std::unique_ptr<StepProgram>& compiled = programs_[{work.closure->program(), is_summed}];
  if (compiled != nullptr && (compiled->status.ok() || work.program == nullptr)) {
    return compiled.get();
  }
  compiled = std::make_unique<StepProgram>();
  if (work.program == nullptr) {
    compiled->status = FailedPrecondition("program {} was never registered on this worker",
                                          work.closure->program());
    return compiled.get();
  }
  compiled->status = CompileFor(work, is_summed, compiled.get());
  return compiled.get();
}

absl::Status StepLoop::CompileFor(const Work& work, bool is_summed, StepProgram* program) {
  CompileOptions compile = options_.compile;
  compile.lanes = static_cast<int>(ahead_.limit()) + 1;
  compile.sums_elsewhere = is_summed;
  absl::Status status = variables_->Compile(work, compile, program);
  if (!status.ok()) {
    return Annotate(std::move(status), fmt::format("compiling program '{}'", work.program->name));
  }
  program->access = KeepHotRows(program->executable->program(), std::move(program->access),
                                {metrics_->kept_rows, metrics_->kept_bytes});
  program->loss_scale = LossScale(work.program->loss_scaling);
  program->uses_variables = !work.program->variables.empty();
  return absl::OkStatus();
}

void StepLoop::DropPrograms() {
  while (!ahead_.empty() || pending_.has_value()) Advance();
  programs_.clear();
}

// Everything is compiled for another number of lanes.
void StepLoop::SetPullAhead(uint32_t limit) {
  DropPrograms();
  resources_.SetPullAhead(limit);
  ahead_.SetLimit(limit);
}

void StepLoop::Open(const Work& work) {
  if (work.pull_ahead != ahead_.limit()) SetPullAhead(work.pull_ahead);
  StepProgram* program = Compile(work);
  auto run = std::make_shared<ClosureRun>(work.closure, work.seed);
  run->BeginPart();
  if (!program->status.ok()) {
    run->Fail(program->status);
    return EndPart(run.get());
  }
  AnnounceLeases(work);
  ahead_.Open(std::move(run), program);
}

// Pulls the next step and sends the pending push, and runs the oldest step if its turn has come:
// during the exchange if steps are pulled ahead, else after it.
void StepLoop::Advance() {
  DropUnwanted();
  PreparedStep* const pull = NextPull();
  BeginExchange(pull);
  const bool on_device = ahead_.program() != nullptr && ahead_.program()->access->on_device();
  const bool overlaps = ahead_.limit() > 0 && !on_device && IsDue(pull);
  if (overlaps) {
    PollExchange();
    RunFront();
  }
  FinishExchange();
  // A push on a device is in the memory that the next step overwrites.
  const bool is_held = pending_.has_value() && pending_->program->access->on_device();
  if (!overlaps && !is_held && IsDue(pull)) RunFront();
  // The push of the next step waits until the one before is acknowledged or lost.
  while (next_push_.has_value() && pending_.has_value()) {
    BeginExchange(nullptr);
    FinishExchange();
  }
  if (next_push_.has_value()) std::swap(pending_, next_push_);
}

// Gives up what is pending or prepared for closures that should stop.
void StepLoop::DropUnwanted() {
  const auto stops = [this](ClosureRun* run) { return core_->ShouldStop(run->closure().id()); };
  const auto unwanted = [&](ClosureRun* run) {
    if (!run->abandoned() && stops(run)) run->Abandon(Cancelled("cancelled"));
    return run->abandoned();
  };
  // If only a later step failed, the push of an earlier step must still be sent.
  if (pending_.has_value() && pending_->run->abandoned() && stops(pending_->run.get())) {
    LosePending(Cancelled("cancelled"));
  }
  if (ahead_.open() != nullptr && unwanted(ahead_.open().get())) {
    const std::shared_ptr<ClosureRun> run = ahead_.open();
    ahead_.CloseOpen();
    EndPart(run.get());
  }
  while (!ahead_.empty() && unwanted(ahead_.front().run.get())) {
    EndPart(ahead_.PopFront().run.get());
  }
  while (!ahead_.empty() && !ahead_.back()->pulled && ahead_.back()->run->abandoned()) {
    EndPart(ahead_.PopBack().run.get());
  }
}

// Returns the step that is pulled next, prepared; null if there is none now.
PreparedStep* StepLoop::NextPull() {
  if (!ahead_.empty() && !ahead_.back()->pulled) return ahead_.back();
  if (!ahead_.MayAdd()) return nullptr;
  const std::shared_ptr<ClosureRun> run = ahead_.open();
  const bool is_ahead = !ahead_.empty();
  PreparedStep* const step = ahead_.Add();
  run->BeginPart();
  const absl::Status prepared = Prepare(step);
  if (step->last || !prepared.ok()) {
    ahead_.CloseOpen();
    EndPart(run.get());
  }
  if (!prepared.ok()) {
    run->Fail(prepared);
    ahead_.PopBack();
    EndPart(run.get());
    return nullptr;
  }
  if (is_ahead) metrics_->pulled_ahead->Increment();
  if (ahead_.program()->uses_variables && !step->empty) return step;
  step->pulled = true;
  return nullptr;
}

absl::Status StepLoop::Prepare(PreparedStep* step) {
  StepProgram* const program = ahead_.program();
  const v1::Closure& closure = step->run->closure();
  step->loss_scale = closure.loss_scale() > 0 ? closure.loss_scale() : program->loss_scale.scale();
  program->executable->UseLane(step->lane);
  COHORT_ASSIGN_OR_RETURN(const bool bound, BindStep(program, step->run.get(), step->ordinal,
                                                     step->loss_scale, &resources_));
  step->empty = !bound;
  if (bound) {
    return NameFile(
        program->executable->Prepare({step->run->seed(), closure.place(), step->ordinal}), *step);
  }
  if (closure.ring_places() == 0) return absl::OkStatus();
  return FailedPrecondition(
      "a ring of replicas cannot leave out the records of {}: give the job `communication: direct`",
      closure.leases(static_cast<int>(step->ordinal)).part().path());
}

absl::Status StepLoop::NameFile(absl::Status status, const PreparedStep& step) const {
  const v1::Closure& closure = step.run->closure();
  const auto ordinal = static_cast<int>(step.ordinal);
  if (!absl::IsInvalidArgument(status) || ordinal >= closure.leases_size()) return status;
  const v1::Lease& lease = closure.leases(ordinal);
  if (!lease.has_part()) return status;
  const std::string& path = lease.part().path();
  return AdviseToSkip(std::move(status), path, options_.data,
                      fmt::format("the records are those of {}: ", path));
}

// The oldest step runs if enough steps are pulled ahead of it, or if none can be added.
bool StepLoop::IsDue(const PreparedStep* pull) {
  if (ahead_.empty() || !ahead_.front().pulled) return false;
  return (ahead_.full() || pull == nullptr) && !ahead_.front().run->abandoned();
}

void StepLoop::RunFront() {
  StepProgram* const program = ahead_.program();
  const PreparedStep step = ahead_.PopFront();
  ClosureRun* const run = step.run.get();
  if (step.empty) {
    run->AddEmptyStep();
    return EndPart(run);
  }
  program->executable->UseLane(step.lane);
  const TimePoint begin = clock_->Now();
  DenseSums* sums = nullptr;
  const absl::Status status = NameFile(RunStep(step, program, &sums), step);
  if (!status.ok()) {
    run->Abandon(status);
    return EndPart(run);
  }
  metrics_->run_seconds->Observe(ToSeconds(clock_->Now() - begin));
  run->AddStep(*program->executable, program->executable->batch_count());
  if (step.last) run->TakeOutputs(*program->executable);
  metrics_->steps->Increment();
  metrics_->device_bytes->Increment(static_cast<uint64_t>(program->executable->transfer_bytes()));
  metrics_->examples->Increment(static_cast<uint64_t>(program->executable->batch_count()));
  const bool trains = run->closure().training() && program->uses_variables;
  if (trains && AdmitsPush(step, program)) {
    PendingPush push = MakePush(step, program);
    if (sums != nullptr) {
      const auto summed = sums->Finish();
      if (!summed.ok()) {
        run->Abandon(summed.status());
        return EndPart(run);
      }
      push.batch.sums_dense = true;
      push.batch.sums = *summed;
    }
    run->BeginPart();
    next_push_ = std::move(push);
  }
  EndPart(run);
}

absl::Status StepLoop::RunStep(const PreparedStep& step, StepProgram* program, DenseSums** sums) {
  const v1::Closure& closure = step.run->closure();
  Executable* const executable = program->executable.get();
  if (closure.ring_places() == 0) {
    absl::Status status = executable->Run();
    // An interrupt of a layer on another worker may be for another closure, or out of date.
    while (absl::IsCancelled(status) && !core_->ShouldStop(closure.id())) {
      status = executable->Run();
    }
    return status;
  }
  *sums = variables_->dense_sums();
  if (*sums == nullptr) {
    return FailedPrecondition("this worker owns no variables, so it has no part in a ring");
  }
  COHORT_RETURN_IF_ERROR((*sums)->Begin(closure, executable->program(), executable->next_pushes()));
  return executable->Run(*sums);
}

bool StepLoop::AdmitsPush(const PreparedStep& step, StepProgram* program) {
  const Executable& executable = *program->executable;
  if (!executable.program().loss_scaling.enabled()) return true;
  const bool finite = PushesAreFinite(executable.program(), executable.pushes());
  if (!finite) {
    metrics_->not_finite->Increment();
    step.run->AddNotFinite();
  }
  if (step.run->closure().loss_scale() > 0) return true;
  program->loss_scale.OnStep(step.loss_scale, finite);
  return finite;
}

// The pending push, if there is one, and the pull, unless it must wait for the push: that of
// another program, or of another synchronous step, which the push may close.
void StepLoop::BeginExchange(PreparedStep* pull) {
  if (!pending_.has_value() && pull == nullptr) return;
  StepProgram* const program = pull != nullptr ? ahead_.program() : pending_->program;
  PullBatch batch;
  if (pull != nullptr) {
    const v1::Closure& closure = pull->run->closure();
    batch.place = closure.place();
    batch.ordinal = pull->ordinal;
    batch.step = closure.step().step();
    batch.lane = static_cast<uint32_t>(pull->lane);
    program->executable->UseLane(pull->lane);
    batch.items = program->executable->pulls();
  }
  const bool apart =
      pending_.has_value() && pull != nullptr &&
      (pending_->program != program || pending_->batch.stamp.step.step != batch.step);
  if (apart) return BeginExchange(nullptr);
  exchange_ = Exchange{.program = program, .pushes = pending_.has_value(), .pulls = pull};
  const TimePoint begin = clock_->Now();
  exchange_->begun = program->access->Begin(pending_.has_value() ? &pending_->batch : nullptr,
                                            pull != nullptr ? &batch : nullptr);
  exchange_->spent = clock_->Now() - begin;
}

void StepLoop::PollExchange() {
  if (!exchange_.has_value() || !exchange_->begun.ok()) return;
  const TimePoint begin = clock_->Now();
  exchange_->program->access->Poll();
  exchange_->spent += clock_->Now() - begin;
}

void StepLoop::FinishExchange() {
  if (!exchange_.has_value()) return;
  const Exchange exchange = *std::exchange(exchange_, std::nullopt);
  const TimePoint begin = clock_->Now();
  const absl::StatusOr<ExchangeResult> result =
      exchange.begun.ok() ? exchange.program->access->Finish() : exchange.begun;
  metrics_->exchange_seconds->Observe(ToSeconds(exchange.spent + (clock_->Now() - begin)));
  if (result.ok()) {
    if (exchange.pushes) OnPushed(result->push);
    if (exchange.pulls != nullptr) OnPulled(exchange.pulls, result->pulled_timeline);
    return;
  }
  const absl::Status& status = result.status();
  const bool names_server = NamesServer(status);
  if (names_server) core_->OnUnreachable(status);
  // An interrupt may be for another closure, or out of date. Then the exchange is tried again. In
  // other cases the push is given up; the pull may succeed alone, unless a server failed.
  const bool interrupted = absl::IsCancelled(status);
  const auto stops = [&](ClosureRun* run) { return core_->ShouldStop(run->closure().id()); };
  if (exchange.pulls != nullptr) {
    ClosureRun* const run = exchange.pulls->run.get();
    if (interrupted ? stops(run) : !exchange.pushes || names_server) run->Abandon(status);
  }
  if (exchange.pushes && (!interrupted || stops(pending_->run.get()))) LosePending(status);
}

void StepLoop::OnPushed(const PushOutcome& outcome) {
  metrics_->applied->Increment(outcome.applied);
  metrics_->duplicates->Increment(outcome.duplicates);
  const PendingPush pushed = *std::exchange(pending_, std::nullopt);
  pushed.run->AddPush(outcome);
  EndPart(pushed.run.get());
}

void StepLoop::OnPulled(PreparedStep* step, uint64_t timeline) {
  const v1::Closure& closure = step->run->closure();
  step->pulled = true;
  step->timeline = timeline;
  COHORT_CRASH_POINT("worker.pull.done");
  if (!closure.training() || timeline == closure.timeline()) return;
  step->run->Abandon(Aborted("the servers are on timeline {}, the closure is of {}", timeline,
                             closure.timeline()));
}

void StepLoop::LosePending(const absl::Status& status) {
  const PendingPush lost = *std::exchange(pending_, std::nullopt);
  lost.run->AbandonLostPush(status);
  EndPart(lost.run.get());
}

StepLoop::PendingPush StepLoop::MakePush(const PreparedStep& step, StepProgram* program) {
  const v1::Closure& closure = step.run->closure();
  PendingPush push;
  push.program = program;
  push.run = step.run;
  push.batch.stamp.closure = closure.id();
  push.batch.stamp.ordinal = step.ordinal;
  push.batch.stamp.attempt = closure.attempt();
  push.batch.stamp.place = closure.place();
  push.batch.stamp.timeline = step.timeline;
  push.batch.stamp.weight = program->executable->weight();
  push.batch.stamp.step = StepMembership::Of(closure.step());
  push.batch.stamp.iteration_offset = closure.iteration_offset();
  push.batch.items = program->executable->pushes();
  push.batch.lane = static_cast<uint32_t>(step.lane);
  return push;
}

void StepLoop::EndPart(ClosureRun* run) {
  if (run->EndPart()) Finish(run);
}

void StepLoop::Finish(ClosureRun* run) {
  absl::Status status = run->status();
  if (status.ok()) status = run->CheckNoneRefused();
  const v1::Closure& closure = run->closure();
  const Program* program = nullptr;
  for (const bool is_summed : {false, true}) {
    const auto compiled = programs_.find({closure.program(), is_summed});
    if (compiled == programs_.end() || compiled->second->executable == nullptr) continue;
    program = &compiled->second->executable->program();
  }
  (status.ok() ? metrics_->closures : metrics_->failed)->Increment();
  if (!status.ok()) {
    const std::string context = fmt::format("closure {} of program '{}'", closure.id(),
                                            program == nullptr ? closure.program() : program->name);
    const bool given_back = absl::IsAborted(status) || absl::IsCancelled(status);
    status = Annotate(std::move(status), context);
    if (given_back && !GetFailure(status).has_value()) {
      status = core_->GivenBack(status.code(), std::string(status.message()));
    }
    // If the closure was settled, the chief decides whether that is an error and ends the job.
    const bool expected = given_back || run->refused_as_settled();
    log_->Failure(expected ? LogLevel::kInfo : LogLevel::kWarning, "closure_failed", status);
  }
  core_->Finish(run->Take(program, status), run->read_position());
}

void StepLoop::AnnounceLeases(const Work& work) {
  if (work.closure->id() != announced_) {
    for (const v1::Lease& lease : work.closure->leases()) {
      resources_.Announce(work.closure->resource(), lease);
    }
  }
  announced_ = work.closure->id();
  if (work.next_leases.empty()) return;
  announced_ = work.next_closure;
  for (const v1::Lease& lease : work.next_leases) resources_.Announce(work.next_resource, lease);
}

}  // namespace cohort
