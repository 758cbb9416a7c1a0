#include "chief/api/closure_results.h"

#include "common/base/status.h"
#include "common/graph/program_proto.h"
#include "common/metrics/metric_proto.h"
#include "proto/worker.pb.h"

namespace cohort {

bool RemoteValue::ready() const {
  if (state_ == nullptr) return false;
  MutexLock lock(&state_->mu);
  return state_->ready;
}

absl::StatusOr<StepResult> RemoteValue::Fetch() const {
  if (state_ == nullptr) return FailedPrecondition("this RemoteValue belongs to no closure");
  FetchListener* const listener = state_->listener.get();
  const bool waits = listener != nullptr && !ready();
  if (waits) listener->AddWaiting(1);
  absl::StatusOr<StepResult> result;
  {
    MutexLock lock(&state_->mu);
    while (!state_->ready) state_->changed.Wait(&state_->mu);
    if (state_->status.ok()) {
      result = state_->result;
    } else {
      result = state_->status;
    }
  }
  if (waits) listener->AddWaiting(-1);
  return result;
}

std::pair<uint64_t, RemoteValue> ClosureResults::New() {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>();
  value.state_->listener = listener_;
  waiting_[next_] = value.state_;
  return {next_++, value};
}

void ClosureResults::Set(RemoteValue::State* state, const absl::Status& status,
                         const v1::ClosureResult* result) {
  MutexLock lock(&state->mu);
  state->status = status;
  if (status.ok() && result != nullptr) {
    for (const v1::TensorValue& output : result->outputs()) {
      auto tensor = TensorFromProto(output);
      if (!tensor.ok()) {
        state->status = Annotate(tensor.status(), "a result");
        break;
      }
      state->result.outputs.push_back(*std::move(tensor));
    }
    state->result.metrics = MetricsFromProto(result->metrics());
    state->result.steps = result->steps();
    state->result.examples = result->examples();
    state->result.end_of_data = result->end_of_data();
  }
  state->ready = true;
  state->changed.SignalAll();
}

void ClosureResults::Finish(uint64_t token, const absl::Status& status,
                            const v1::ClosureResult* result) {
  const auto found = waiting_.find(token);
  if (found == waiting_.end()) return;
  Set(found->second.get(), status, result);
  waiting_.erase(found);
}

void ClosureResults::FinishAll(const absl::Status& status) {
  for (auto& [token, state] : waiting_) Set(state.get(), status, nullptr);
  waiting_.clear();
}

}  // namespace cohort
