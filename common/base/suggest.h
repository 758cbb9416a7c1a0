#ifndef COHORT_COMMON_BASE_SUGGEST_H_
#define COHORT_COMMON_BASE_SUGGEST_H_

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// The number of insertions, deletions, substitutions and swaps of adjacent letters that lead from
// `a` to `b` (optimal string alignment distance).
size_t EditDistance(std::string_view a, std::string_view b);

// `; did you mean "relu"?`, to be appended to an error about an unknown name. It suggests the
// nearest of the known names, ignoring case, and the first of equals. "" if none is near: more than
// a third of its letters would have to change.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> known);
std::string DidYouMean(std::string_view name, std::span<const std::string> known);
inline std::string DidYouMean(std::string_view name,
                              std::initializer_list<std::string_view> known) {
  return DidYouMean(name, std::span<const std::string_view>(known.begin(), known.size()));
}

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_SUGGEST_H_
