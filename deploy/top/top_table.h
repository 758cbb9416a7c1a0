#ifndef COHORT_DEPLOY_TOP_TOP_TABLE_H_
#define COHORT_DEPLOY_TOP_TOP_TABLE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cohort {

// What a row of the screen shows; a terminal may color it.
enum class TopRowKind { kPlain, kTitles, kLost };

struct TopRow {
  std::string text;  // printable, without a newline
  TopRowKind kind = TopRowKind::kPlain;
};

// The size of a terminal in characters; 0: without a limit.
struct ScreenSize {
  size_t columns = 0;
  size_t rows = 0;
};

// Returns the header of a job and the table of its tasks. `now` is the status of the job (docs/
// cluster.md), `before` an older one, taken `seconds` earlier: rates are differences of the two. A
// narrow screen gets fewer columns, a low one fewer tasks, of which lost ones come first. No row is
// longer than the screen is wide. Keys that are absent or of another type show as "-".
std::vector<TopRow> TopRows(const nlohmann::json& before, const nlohmann::json& now, double seconds,
                            const ScreenSize& screen);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TOP_TOP_TABLE_H_
