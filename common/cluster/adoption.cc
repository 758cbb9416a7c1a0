#include "common/cluster/adoption.h"

#include "common/base/status.h"

namespace cohort {

bool Adoption::Hears(uint64_t chief_incarnation, TimePoint now) const {
  if (generation_ == 0 || chief_incarnation == chief_incarnation_) return false;
  if (connection_.has_value()) return true;
  return lost_at_.has_value() && now - *lost_at_ < chief_timeout_;
}

// A task that takes any number would keep all later chiefs away.
absl::Status Adoption::CheckGeneration(const Request& request) const {
  const bool same_job = generation_ != 0 && request.job == job_;
  const bool too_far = same_job ? TooFarAhead(request.generation, generation_)
                                : request.generation > kLastFirstGeneration;
  if (!too_far) return absl::OkStatus();
  return OutOfRange("generation {} of a chief is out of range; the newest of this job is {}",
                    request.generation, same_job ? generation_ : 0);
}

std::string Adoption::Claim(const Request& request, TimePoint now, bool new_job) {
  if (new_job && !request.takeover && Hears(request.chief_incarnation, now)) {
    return "it works for the chief of job " + job_;
  }
  const bool another_chief = request.chief_incarnation != chief_incarnation_;
  if (!new_job &&
      (request.generation < generation_ || (request.generation == generation_ && another_chief))) {
    return "a newer chief has been here";
  }
  generation_ = request.generation;
  chief_incarnation_ = request.chief_incarnation;
  job_ = request.job;
  connection_ = request.connection;
  lost_at_.reset();
  return "";
}

Adoption::Answer Adoption::Handle(const Request& request, const Task& own, TimePoint now,
                                  Logger* log) {
  Answer answer;
  answer.refused = CheckProtocol("the chief", request.version, own.ToString());
  if (!answer.refused.ok()) {
    log->Failure(LogLevel::kWarning, "chief_refused", answer.refused);
    return answer;
  }
  if (!request.expected.empty() && request.expected != own.ToString()) {
    answer.refused = FailedPrecondition(
        "the chief takes this task for {}, but it is {}: TF_CONFIG of the two differ",
        request.expected, own.ToString());
  } else if (!request.probe && request.generation == 0) {
    answer.refused = InvalidArgument("a chief without a generation adopts nothing");
  } else if (!request.probe) {
    answer.refused = CheckGeneration(request);
  }
  if (!answer.refused.ok() || request.probe) return answer;
  const std::optional<Connection> before = connection_;
  answer.new_job = generation_ != 0 && request.job != job_;
  answer.fenced = Claim(request, now, answer.new_job);
  answer.adopted = answer.fenced.empty();
  if (answer.adopted && before.has_value() && *before != request.connection) {
    answer.superseded = before;
  }
  return answer;
}

void Adoption::OnClosed(Connection connection, ChiefLoss loss, TimePoint now) {
  if (connection_ != connection) return;
  connection_.reset();
  if (loss == ChiefLoss::kSilent) lost_at_ = now;
}

}  // namespace cohort
