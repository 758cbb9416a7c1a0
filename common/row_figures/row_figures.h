#ifndef COHORT_COMMON_ROW_FIGURES_ROW_FIGURES_H_
#define COHORT_COMMON_ROW_FIGURES_ROW_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

namespace v1 {
class RowFigures;
class TaskFigures;
}  // namespace v1

// How many hot keys of a variable figures have.
inline constexpr size_t kHotKeys = 10;
// Figures of this many variables are kept apart. All others are added up under kOtherVariables.
inline constexpr size_t kMostRowVariables = 100;
inline constexpr char kOtherVariables[] = "(others)";

// Adds what a part of a variable's rows has (a shard, a server) to the figures of its variable. No
// two parts have the same row.
void AddRowFigures(const v1::RowFigures& part, v1::TaskFigures* sum);

// The rows that one server was asked for or given, as a part of all servers'.
struct ServerShare {
  uint64_t rows = 0;  // pulled and pushed
  uint64_t bytes = 0;
};

// What all servers have of the variables that steps read by rows.
struct ClusterRowFigures {
  // `servers`: the figures of each, by index.
  explicit ClusterRowFigures(std::span<const v1::TaskFigures* const> servers);
  ~ClusterRowFigures();
  ClusterRowFigures(ClusterRowFigures&&) noexcept;
  ClusterRowFigures& operator=(ClusterRowFigures&&) noexcept;

  // The largest server's rows divided by the mean: 1 is even. 0: no rows were moved.
  double skew() const;
  bool empty() const { return variables.empty(); }

  std::vector<v1::RowFigures> variables;
  std::vector<ServerShare> servers;
};

}  // namespace cohort

#endif  // COHORT_COMMON_ROW_FIGURES_ROW_FIGURES_H_
