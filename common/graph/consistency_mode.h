#ifndef COHORT_COMMON_GRAPH_CONSISTENCY_MODE_H_
#define COHORT_COMMON_GRAPH_CONSISTENCY_MODE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

// How updates of different workers are ordered (design: "Consistency modes").
enum class ConsistencyMode : uint8_t { kAsync, kSync, kBounded };
// What idle workers do while a synchronous step waits for the last results:
// nothing, the same closures once more, or nothing because the step is closed
// without the last ones.
enum class BackupWork : uint8_t { kNone, kSpeculative, kDrop };

// Their names in job files, in the journal and in requests of `cohort ctl`, by
// value.
inline constexpr std::array<const char*, 3> kModeNames = {"async", "sync", "bounded_staleness"};
inline constexpr std::array<const char*, 3> kBackupWorkNames = {"none", "speculative", "drop"};

inline std::string NameOf(ConsistencyMode mode) { return kModeNames[static_cast<size_t>(mode)]; }
inline std::string NameOf(BackupWork work) { return kBackupWorkNames[static_cast<size_t>(work)]; }

// Returns the value with this name; nullopt: there is none. `names`: one of the
// tables above.
template <typename Enum, size_t n>
std::optional<Enum> ValueNamed(const std::array<const char*, n>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}
inline std::optional<ConsistencyMode> ModeNamed(std::string_view name) {
  return ValueNamed<ConsistencyMode>(kModeNames, name);
}
inline std::optional<BackupWork> BackupWorkNamed(std::string_view name) {
  return ValueNamed<BackupWork>(kBackupWorkNames, name);
}

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_CONSISTENCY_MODE_H_
