#include "common/model/layers/borders.h"

#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace cohort {

absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> BordersOf(std::string_view name,
                                                                   std::span<const int64_t> given,
                                                                   size_t axes) {
  std::vector<std::pair<int64_t, int64_t>> borders;
  for (size_t i = 0; i < axes; ++i) {
    if (given.size() == 1) {
      borders.emplace_back(given[0], given[0]);
    } else if (given.size() == 2 * axes) {
      borders.emplace_back(given[2 * i], given[2 * i + 1]);
    } else if (given.size() == axes) {
      borders.emplace_back(given[i], given[i]);
    } else {
      return InvalidArgument("{} must be one number, or two{}, not {}", name,
                             axes == 1 ? "" : ", or two pairs", DimsToString(given));
    }
  }
  return borders;
}

}  // namespace cohort
