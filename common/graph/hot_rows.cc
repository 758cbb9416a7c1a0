#include "common/graph/hot_rows.h"

namespace cohort {

void AllowHotRows(int64_t steps, int64_t rows, Program* program) {
  for (Node& node : program->nodes) {
    if (node.op != "read_rows") continue;
    node.attrs["max_age"] = steps;
    node.attrs["kept_rows"] = rows;
  }
}

}  // namespace cohort
