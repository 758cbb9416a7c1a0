#include "common/cluster/adoption.h"

#include "common/base/status.h"

namespace cohort {

bool Adoption::Hears(uint64_t chief_incarnation, TimePoint now) const {
  if (generation_ == 0 || chief_incarnation == chief_incarnation_) return false;
  if (connection_.has_value()) return true;
  return lost_at_.has_value() && now - *lost_at_ < chief_timeout_;
}

Adoption::Verdict Adoption::Adopt(const Request& request, TimePoint now) {
  const bool new_job = generation_ != 0 && request.job != job_;
  if (new_job && !request.takeover && Hears(request.chief_incarnation, now)) {
    return Verdict::kBusy;
  }
  if (!new_job) {
    if (request.generation < generation_) return Verdict::kFenced;
    if (request.generation == generation_ && request.chief_incarnation != chief_incarnation_) {
      return Verdict::kFenced;
    }
  }
  generation_ = request.generation;
  chief_incarnation_ = request.chief_incarnation;
  job_ = request.job;
  connection_ = request.connection;
  lost_at_.reset();
  return new_job ? Verdict::kAdoptedNewJob : Verdict::kAdopted;
}

Adoption::Outcome Adoption::Claim(const Request& request, TimePoint now) {
  const std::optional<Connection> before = connection_;
  Outcome outcome{.verdict = Adopt(request, now)};
  if (outcome.verdict == Verdict::kFenced) {
    outcome.refusal = "a newer chief has been here";
  } else if (outcome.verdict == Verdict::kBusy) {
    outcome.refusal = "it works for the chief of job " + job_;
  } else if (before.has_value() && *before != request.connection) {
    outcome.superseded = before;
  }
  return outcome;
}

absl::Status CheckExpectedTask(const Task& own, std::string_view expected_type,
                               int expected_index) {
  if (expected_type == RoleName(own.role) && expected_index == own.index) return absl::OkStatus();
  return FailedPrecondition(
      "the chief takes this task for {}:{}, but it is {}: TF_CONFIG of the two differ",
      expected_type, expected_index, own.ToString());
}

void Adoption::OnClosed(Connection connection, ChiefLoss loss, TimePoint now) {
  if (connection_ != connection) return;
  connection_.reset();
  if (loss == ChiefLoss::kSilent) lost_at_ = now;
}

}  // namespace cohort
