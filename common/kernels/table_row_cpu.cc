// table_row: keys[...] int64 -> the rows of a table without bounds that have them.
#include "common/kernels/cpu_kernels.h"
#include "common/tensor/table_rows.h"

namespace cohort {
namespace {

class TableRowKernel : public Kernel {
 public:
  explicit TableRowKernel(bool lists) : lists_(lists) {}

  absl::Status Run(const KernelContext& c) const override {
    const int64_t* const keys = c.in(0).as<int64_t>();
    int64_t* const rows = c.out(0).as<int64_t>();
    for (int64_t i = 0; i < c.in(0).elements; ++i) {
      rows[i] = lists_ && keys[i] == kNoTableKey ? kNoTableKey : RowOfKey(keys[i]);
    }
    return absl::OkStatus();
  }

 private:
  const bool lists_;
};

}  // namespace

KernelOr CreateTableRowCpu(const Node& node, const Program& /*program*/) {
  return std::make_unique<TableRowKernel>(BoolAttr(node, "lists"));
}

}  // namespace cohort
