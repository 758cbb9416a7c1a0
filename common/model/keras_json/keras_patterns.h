#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_PATTERNS_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_PATTERNS_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// Returns patterns as `compile.optimizers` has them (fnmatch), which together match the names that
// a regular expression of Python matches completely: "(wide|linear)/.*" becomes "wide/*" and
// "linear/*". It reads characters, `.`, `.*`, `.+`, sets such as [0-9], `|` and groups. Errors:
// Unimplemented for other parts of regular expressions.
absl::StatusOr<std::vector<std::string>> PatternsOfRegex(std::string_view regex);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_PATTERNS_H_
