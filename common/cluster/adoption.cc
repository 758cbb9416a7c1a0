#include "common/cluster/adoption.h"

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

void Adoption::OnClosed(Connection connection, ChiefLoss loss, TimePoint now) {
  if (connection_ != connection) return;
  connection_.reset();
  if (loss == ChiefLoss::kSilent) lost_at_ = now;
}

}  // namespace cohort
