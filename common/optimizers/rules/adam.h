#ifndef COHORT_COMMON_OPTIMIZERS_RULES_ADAM_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_ADAM_H_

#include "common/optimizers/optimizers.h"

namespace cohort {

// Adam under another name and with another weight decay: AdamW.
OptimizerClass AdamWith(std::string_view name, std::string_view doc, Argument weight_decay);

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_ADAM_H_
