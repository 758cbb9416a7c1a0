#include "ps_server/admission.h"

#include "ps_server/unsent_answers.h"

namespace cohort {

Admission::Wait Admission::Of(const RequestView& request, uint64_t promised) const {
  if (!request.has_push) {
    if (data_path_->MustWait(request)) return Wait::kStep;
    return MayAnswer(request, promised) ? Wait::kNone : Wait::kAnswers;
  }
  // A step may need the push. The pull beside it is answered LATER as a rule, which takes nothing.
  if (request.push.step.sync()) {
    if (!data_path_->MayStage(request, memory_->most_early())) return Wait::kEarly;
    if (!data_path_->MustWait(request) && !MayAnswer(request, promised)) return Wait::kAnswers;
  } else {
    if (!MayAnswer(request, promised)) return Wait::kAnswers;
    if (snapshots_->HoldAny() && !MayCopy(data_path_->BytesToCopy(request))) {
      return Wait::kSnapshot;
    }
  }
  return memory_->short_of_memory() ? Wait::kShort : Wait::kNone;
}

// One answer is always admitted.
bool Admission::MayAnswer(const RequestView& request, uint64_t promised) const {
  const uint64_t unsent = memory_->answers()->bytes() + promised;
  if (unsent == 0 || request.pull_sections.empty() || faults_.answers_never_wait) return true;
  return unsent + AnswerBytes(request) <= memory_->most_answers();
}

bool Admission::MayCopy(uint64_t more) const {
  return more == 0 || snapshots_->MayKeep(more, memory_->most_superseded(),
                                          [this] { return data_path_->SupersededBytes(); });
}

}  // namespace cohort
