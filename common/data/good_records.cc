#include "common/data/good_records.h"

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/schema/class_registry.h"

namespace cohort {

Argument OnCorruptArgument() {
  return String("on_corrupt",
                "What a corrupt record does. fail: ends the job when it is read. skip: every "
                "process checks all records when it opens the data, and leaves out corrupt ones.")
      .Default("fail")
      .OneOf({"fail", "skip"});
}

absl::StatusOr<std::vector<uint64_t>> FindGoodRecords(
    std::string_view source, uint64_t records, const DataOptions& options,
    absl::FunctionRef<absl::Status(uint64_t record)> check, std::string* warning) {
  std::vector<absl::Status> corrupt(records);
  ThreadPool pool(options.threads, "check");
  pool.ForEach(records, [&](size_t record) { corrupt[record] = check(record); });
  std::vector<uint64_t> good;
  const absl::Status* first = nullptr;
  for (uint64_t record = 0; record < records; ++record) {
    if (corrupt[record].ok()) {
      good.push_back(record);
    } else if (!absl::IsDataLoss(corrupt[record])) {
      return corrupt[record];
    } else if (first == nullptr) {
      first = &corrupt[record];
    }
  }
  if (first == nullptr) return good;
  const std::string reason(first->message());
  if (good.empty()) {
    return DataLoss("all {} records are corrupt, so `on_corrupt: skip` leaves none; the first: {}",
                    records, reason);
  }
  *warning = fmt::format("source {}: {} of {} records are corrupt and left out; the first: {}",
                         source, records - good.size(), records, reason);
  if (options.log != nullptr) {
    options.log->Warning("corrupt_records_skipped", {{"source", source},
                                                     {"records", records},
                                                     {"corrupt", records - good.size()},
                                                     {"first", reason}});
  }
  return good;
}

}  // namespace cohort
