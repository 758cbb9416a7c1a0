#include "ps_server/admission.h"

#include "ps_server/unsent_answers.h"

namespace cohort {

Admission::Wait Admission::Of(const RequestView& request, uint64_t promised) const {
  if (request.has_push) {
    if (const Wait wait = OfPush(request); wait != Wait::kNone) return wait;
    // A step may need the push. The pull beside it is answered LATER as a rule.
    if (request.push.step.sync()) return Wait::kNone;
  } else if (data_path_->MustWait(request)) {
    return Wait::kStep;
  }
  // One answer is always admitted.
  const uint64_t unsent = memory_->answers()->bytes() + promised;
  if (unsent == 0 || request.pull_sections.empty()) return Wait::kNone;
  return unsent + AnswerBytes(request) > memory_->most_answers() ? Wait::kAnswers : Wait::kNone;
}

Admission::Wait Admission::OfPush(const RequestView& request) const {
  if (memory_->short_of_memory()) return Wait::kShort;
  if (request.push.step.sync()) {
    const uint64_t most = memory_->most_early();
    return data_path_->MayStage(request, most) ? Wait::kNone : Wait::kEarly;
  }
  if (snapshots_->empty()) return Wait::kNone;
  return MayCopy(data_path_->BytesToCopy(request)) ? Wait::kNone : Wait::kSnapshot;
}

bool Admission::MayCopy(uint64_t more) const {
  if (more == 0) return true;
  return data_path_->SupersededBytes() + snapshots_->SupersededBytes() + more <=
         memory_->most_superseded();
}

}  // namespace cohort
