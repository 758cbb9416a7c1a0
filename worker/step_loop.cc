#include "worker/step_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
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
      waits(registry->AddCounter("cohort_worker_waits_total", "Sleeps because there was no work")),
      exchange_seconds(registry->AddHistogram("cohort_worker_exchange_seconds",
                                              "Time of one push and pull with all servers",
                                              ExponentialBounds(20e-6, 2, 16))),
      run_seconds(registry->AddHistogram("cohort_worker_run_seconds", "Time of one step's compute",
                                         ExponentialBounds(20e-6, 2, 16))) {}

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
  const Work work = core_->NextWork(/*may_wait=*/!pending_.has_value());
  if (work.job != job_) {
    resources_.Clear();
    job_ = work.job;
  }
  switch (work.kind) {
    case Work::Kind::kResource:
      MakeResource(work);
      return true;
    case Work::Kind::kClosure:
      RunClosure(work);
      return true;
    case Work::Kind::kNone:
    case Work::Kind::kStop:
      if (pending_.has_value()) {
        (void)PushPending();  // its closure gets the status
        return true;
      }
      stopped_ = work.kind == Work::Kind::kStop;
      return false;
  }
  return false;
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

StepLoop::Compiled* StepLoop::Compile(const Work& work) {
  std::unique_ptr<Compiled>& compiled = programs_[work.closure->program()];
  if (compiled != nullptr && (compiled->status.ok() || work.program == nullptr)) {
    return compiled.get();
  }
  compiled = std::make_unique<Compiled>();
  if (work.program == nullptr) {
    compiled->status = FailedPrecondition("program {} was never registered on this worker",
                                          work.closure->program());
    return compiled.get();
  }
  auto executable = Executable::Compile(*work.program, options_.compile);
  if (!executable.ok()) {
    compiled->status =
        Annotate(executable.status(), fmt::format("compiling program '{}'", work.program->name));
    return compiled.get();
  }
  compiled->executable = *std::move(executable);
  compiled->uses_variables = !work.program->variables.empty();
  compiled->access = variables_->ForProgram(compiled->executable->program().variables);
  log_->Info("program_compiled",
             {{"program", work.program->name}, {"bytes", compiled->executable->memory_bytes()}});
  return compiled.get();
}

void StepLoop::RunClosure(const Work& work) {
  Compiled* program = Compile(work);
  auto run = std::make_shared<ClosureRun>(work.closure, work.seed);
  if (!program->status.ok()) return Finish(run.get(), program->status);
  AnnounceLeases(work);
  absl::Status status = RunSteps(run, program);
  const bool is_pending = pending_.has_value() && pending_->run == run;
  if (status.ok()) {
    if (!is_pending) return Finish(run.get(), status);
    pending_->last = true;  // the closure ends when the push is acknowledged
    return;
  }
  // If only this step failed, the push of an earlier step must still be sent.
  if (is_pending && !core_->ShouldStop(work.closure->id())) {
    if (absl::Status pushed = PushPending(); !pushed.ok()) status = std::move(pushed);
  } else if (is_pending) {
    pending_.reset();
  }
  Finish(run.get(), status);
}

absl::Status StepLoop::RunSteps(const std::shared_ptr<ClosureRun>& run, Compiled* program) {
  const v1::Closure& closure = run->closure();
  for (uint32_t ordinal = 0; ordinal < std::max(1u, closure.steps()); ++ordinal) {
    if (core_->ShouldStop(closure.id())) return Cancelled("cancelled");
    COHORT_RETURN_IF_ERROR(RunStep(run, program, ordinal));
  }
  run->TakeOutputs(*program->executable);
  return absl::OkStatus();
}

absl::Status StepLoop::RunStep(const std::shared_ptr<ClosureRun>& run, Compiled* program,
                               uint32_t ordinal) {
  const v1::Closure& closure = run->closure();
  Executable& executable = *program->executable;
  COHORT_RETURN_IF_ERROR(Bind(run.get(), program, ordinal));
  if (pending_.has_value() && pending_->program == program &&
      std::exchange(pending_->prepared, true)) {
    // The step between was given up after its Prepare. A second Prepare would overwrite the push.
    if (absl::Status pushed = PushPending(); !pushed.ok() && NamesServer(pushed)) return pushed;
  }
  COHORT_RETURN_IF_ERROR(executable.Prepare({run->seed(), closure.place(), ordinal}));
  uint64_t timeline = closure.timeline();
  if (program->uses_variables) {
    const PullBatch pull{.place = closure.place(),
                         .ordinal = ordinal,
                         .items = executable.pulls(),
                         .step = closure.step().step()};
    COHORT_ASSIGN_OR_RETURN(timeline, Pull(run, program, pull));
    if (closure.training() && timeline != closure.timeline()) {
      return Aborted("the servers are on timeline {}, the closure is of {}", timeline,
                     closure.timeline());
    }
  }
  const TimePoint begin = clock_->Now();
  COHORT_RETURN_IF_ERROR(executable.Run());
  metrics_->run_seconds->Observe(ToSeconds(clock_->Now() - begin));
  run->AddStep(executable, executable.batch_count());
  metrics_->steps->Increment();
  metrics_->examples->Increment(static_cast<uint64_t>(executable.batch_count()));
  if (closure.training() && program->uses_variables) MakePending(run, program, ordinal, timeline);
  return absl::OkStatus();
}

// Binds the next batch of the closure's resource, then the closure's arguments.
absl::Status StepLoop::Bind(ClosureRun* run, Compiled* program, uint32_t ordinal) {
  const v1::Closure& closure = run->closure();
  std::vector<Tensor>& arguments = program->arguments;
  if (ordinal == 0) {
    arguments.clear();
    for (const v1::TensorValue& value : closure.arguments()) {
      COHORT_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(value));
      arguments.push_back(std::move(tensor));
    }
  }
  if (closure.resource().empty()) return program->executable->Bind(arguments);
  const v1::Lease* lease = nullptr;
  if (closure.leases_size() > 0) {
    if (ordinal >= static_cast<uint32_t>(closure.leases_size())) {
      return InvalidArgument("step {} of a closure with {} leases", ordinal, closure.leases_size());
    }
    lease = &closure.leases(static_cast<int>(ordinal));
  }
  COHORT_ASSIGN_OR_RETURN(const BatchReader::Batch* batch,
                          resources_.Next(closure.resource(), lease, run->mutable_read_position()));
  if (arguments.empty()) return program->executable->Bind(batch->tensors);
  std::vector<Tensor> all = batch->tensors;
  all.insert(all.end(), arguments.begin(), arguments.end());
  return program->executable->Bind(all);
}

// Returns the timeline of the pulled values.
absl::StatusOr<uint64_t> StepLoop::Pull(const std::shared_ptr<ClosureRun>& run, Compiled* program,
                                        const PullBatch& pull) {
  // A pull of another step may wait until that push has closed its step.
  const bool apart = pending_.has_value() &&
                     (pending_->program != program || pending_->batch.stamp.step.step != pull.step);
  if (apart) (void)PushPending();
  while (true) {
    const bool pushing = pending_.has_value();
    const bool own = pushing && pending_->run == run;
    const absl::StatusOr<ExchangeResult> result = Exchange(program, &pull);
    if (result.ok()) return result->pulled_timeline;
    if (absl::IsCancelled(result.status())) {
      if (core_->ShouldStop(run->closure().id())) return result.status();
      continue;  // the interrupt was for the pending push, or is out of date
    }
    // The exchange failed, so its push was given up. The pull may succeed alone, unless a server
    // failed.
    if (!pushing || own || NamesServer(result.status())) return result.status();
  }
}

// Exchanges the pending push, if there is one, and the pull, and records the outcome of the push.
absl::StatusOr<ExchangeResult> StepLoop::Exchange(Compiled* program, const PullBatch* pull) {
  const TimePoint begin = clock_->Now();
  const PushBatch* push = pending_.has_value() ? &pending_->batch : nullptr;
  absl::StatusOr<ExchangeResult> result = program->access->Exchange(push, pull);
  metrics_->exchange_seconds->Observe(ToSeconds(clock_->Now() - begin));
  if (result.ok()) {
    if (push != nullptr) OnPushed(result->push);
    return result;
  }
  if (NamesServer(result.status())) core_->OnUnreachable(result.status());
  if (push == nullptr) return result;
  if (!absl::IsCancelled(result.status()) || core_->ShouldStop(pending_->run->closure().id())) {
    FailPending(result.status());
  }
  return result;
}

absl::Status StepLoop::PushPending() {
  absl::Status status;
  // Ends when the push is acknowledged or given up. An interrupt for another closure ends neither.
  while (pending_.has_value()) status = Exchange(pending_->program, nullptr).status();
  return status;
}

void StepLoop::OnPushed(const PushOutcome& outcome) {
  metrics_->applied->Increment(outcome.applied);
  metrics_->duplicates->Increment(outcome.duplicates);
  const PendingPush pushed = *std::exchange(pending_, std::nullopt);
  pushed.run->AddPush(outcome);
  if (pushed.last) Finish(pushed.run.get(), absl::OkStatus());
}

// If the closure has steps left, RunClosure ends it.
void StepLoop::FailPending(const absl::Status& status) {
  const PendingPush failed = *std::exchange(pending_, std::nullopt);
  if (failed.last) Finish(failed.run.get(), status);
}

void StepLoop::MakePending(const std::shared_ptr<ClosureRun>& run, Compiled* program,
                           uint32_t ordinal, uint64_t timeline) {
  const v1::Closure& closure = run->closure();
  PendingPush pending;
  pending.program = program;
  pending.run = run;
  pending.batch.stamp.closure = closure.id();
  pending.batch.stamp.ordinal = ordinal;
  pending.batch.stamp.attempt = closure.attempt();
  pending.batch.stamp.place = closure.place();
  pending.batch.stamp.timeline = timeline;
  pending.batch.stamp.weight = program->executable->weight();
  pending.batch.stamp.step = StepPlace::Of(closure.step());
  pending.batch.stamp.iteration_offset = closure.iteration_offset();
  pending.batch.items = program->executable->pushes();
  pending_ = std::move(pending);
}

void StepLoop::Finish(ClosureRun* run, absl::Status status) {
  if (status.ok()) status = run->CheckNoneRefused();
  const v1::Closure& closure = run->closure();
  const auto compiled = programs_.find(closure.program());
  const Program* program = compiled == programs_.end() || compiled->second->executable == nullptr
                               ? nullptr
                               : &compiled->second->executable->program();
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
