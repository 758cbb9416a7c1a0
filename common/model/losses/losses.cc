// The registry of losses.
#include "common/model/losses/loss.h"
#include "common/model/losses/loss_list.h"

namespace cohort {

#define COHORT_DECLARE(name) LossClass name##Loss();
COHORT_LOSSES(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The losses of keras/src/losses that are missing, with the names of their functions.
constexpr std::string_view kPlannedLosses = "CTC Circle circle ctc";

}  // namespace

ClassRegistry<LossClass>& Losses() {
#define COHORT_CALL(name) name##Loss(),
  static auto& losses =
      *new ClassRegistry<LossClass>("loss", SchemaSet::Spelling::kKeras,
                                    std::string(kPlannedLosses), {COHORT_LOSSES(COHORT_CALL)});
#undef COHORT_CALL
  return losses;
}

}  // namespace cohort
