#include "worker/closure_run.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/graph/program_proto.h"
#include "common/metrics/metric_proto.h"

namespace cohort {

void ClosureRun::Fail(const absl::Status& why) {
  if (status_.ok()) status_ = why;
}

void ClosureRun::Abandon(const absl::Status& why) {
  Fail(why);
  abandoned_ = true;
}

void ClosureRun::AbandonLostPush(const absl::Status& why) {
  status_ = why;
  abandoned_ = true;
}

void ClosureRun::AddStep(const Executable& executable, int64_t examples) {
  metrics_.Add(executable);
  ++steps_;
  examples_ += examples;
}

void ClosureRun::AddPush(const PushOutcome& outcome) {
  result_.set_applied(result_.applied() + outcome.applied);
  result_.set_duplicates(result_.duplicates() + outcome.duplicates);
  settled_ += outcome.settled;
  result_.set_dropped(result_.dropped() || outcome.dropped);
  result_.set_mixed(result_.mixed() || outcome.mixed);
  result_.set_max_staleness(std::max(result_.max_staleness(), outcome.max_staleness));
  result_.set_sum_staleness(result_.sum_staleness() + outcome.sum_staleness);
}

absl::Status ClosureRun::CheckNoneRefused() const {
  if (settled_ == 0) return absl::OkStatus();
  return Internal(
      "parameter servers refused {} of its pushes as settled and may not have applied them: a "
      "server counts the closure as done before the chief does",
      settled_);
}

void ClosureRun::TakeOutputs(const Executable& executable) {
  for (size_t i = 0; i < executable.program().outputs.size(); ++i) {
    TensorToProto(executable.output(i), result_.add_outputs());
  }
}

v1::ClosureResult ClosureRun::Take(const Program* program, const absl::Status& status) {
  result_.set_id(closure_->id());
  result_.set_attempt(closure_->attempt());
  result_.set_steps(steps_);
  result_.set_examples(static_cast<uint64_t>(examples_));
  result_.set_end_of_data(absl::IsOutOfRange(status));
  StatusToProto(status, result_.mutable_status());
  if (program != nullptr) metrics_.ToProto(*program, result_.mutable_metrics());
  return std::move(result_);
}

}  // namespace cohort
