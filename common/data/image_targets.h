#ifndef COHORT_COMMON_DATA_IMAGE_TARGETS_H_
#define COHORT_COMMON_DATA_IMAGE_TARGETS_H_

#include <absl/status/status.h>

#include "common/data/table.h"

namespace cohort::v1 {
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

// Refuses random transforms of images that leave a label behind: they move pixels, and the label is
// a mask of the same size; or they mix the records of a batch, and the label belongs to one of
// them. A label that is made of the transformed images follows them. `table` has all transforms
// applied. Errors: InvalidArgument that says which key is missing.
absl::Status CheckImageTargets(const v1::DatasetSpec& spec, const Table& table);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGE_TARGETS_H_
