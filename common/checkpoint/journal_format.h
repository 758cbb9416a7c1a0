#ifndef COHORT_COMMON_CHECKPOINT_JOURNAL_FORMAT_H_
#define COHORT_COMMON_CHECKPOINT_JOURNAL_FORMAT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::v1 {
class JournalRecord;
}

namespace cohort {

// The most bytes of a record on disk; a greater length is damage.
inline constexpr uint32_t kMaxJournalRecordBytes = uint32_t{64} << 20;

// Appends the frame of one record to `out`. Errors: InvalidArgument (too long, or no number).
absl::Status AppendJournalFrame(const v1::JournalRecord& record, std::string* out);

// The records in the bytes of one journal file. Bytes at the end that are not a record are a torn
// tail, which is left out (`torn_bytes`, if not null, receives its size). If a whole record is
// anywhere after them, they are damage: DataLoss that names `path` and the offset. So are metrics
// beyond their limits. A newer format: the error of CheckFormat.
absl::StatusOr<std::vector<v1::JournalRecord>> ParseJournal(std::string_view bytes,
                                                            std::string_view path,
                                                            uint64_t* torn_bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_JOURNAL_FORMAT_H_
