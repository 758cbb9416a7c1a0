// A build without RocksDB: tables lie in memory alone.
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/tablet/row_tier.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<RowDisk>> RowDisk::Create(const Options& options) {
  return WithExitCode(
      Unimplemented("{}: this build keeps no rows of tables on disk, because it was configured "
                    "without RocksDB: install librocksdb-dev and build again, or leave out "
                    "`strategy.table_memory_bytes`",
                    options.server),
      ExitCode::kConfig);
}

}  // namespace cohort
