#ifndef COHORT_COMMON_DATA_RECORDS_GOOD_SEQUENCE_H_
#define COHORT_COMMON_DATA_RECORDS_GOOD_SEQUENCE_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/data/good_records.h"
#include "common/data/records/file_sequence.h"

namespace cohort {

// The records of several files, of which corrupt ones may be left out (`on_corrupt: skip`).
template <typename File>
class GoodSequence {
 public:
  explicit GoodSequence(FileSequence<File> files)
      : files_(std::move(files)), fingerprint_(files_.fingerprint()) {}

  // Leaves out the records that `check` refuses, which gets their numbers in files(). Errors: those
  // of FindGoodRecords.
  absl::Status SkipCorrupt(std::string_view source, const DataOptions& options,
                           absl::FunctionRef<absl::Status(uint64_t number)> check) {
    COHORT_ASSIGN_OR_RETURN(good_,
                            FindGoodRecords(source, files_.records(), options, check, &skipped_));
    uint64_t hash = kFnv1aBasis;
    for (const uint64_t record : *good_) hash = Fnv1a(fmt::format("{} ", record), hash);
    fingerprint_ += fmt::format(" {} good {:016x}", good_->size(), hash);
    return absl::OkStatus();
  }

  uint64_t records() const { return good_ ? good_->size() : files_.records(); }
  // Returns the number of a record in files().
  uint64_t NumberOf(uint64_t record) const { return good_ ? (*good_)[record] : record; }
  // All records.
  const FileSequence<File>& files() const { return files_; }
  // Identifies the names and the contents of the files, and what is left out.
  const std::string& fingerprint() const { return fingerprint_; }
  std::vector<std::string> warnings() const {
    return skipped_.empty() ? std::vector<std::string>() : std::vector{skipped_};
  }

 private:
  const FileSequence<File> files_;
  std::string fingerprint_;
  std::optional<std::vector<uint64_t>> good_;  // none: all
  std::string skipped_;                        // what is left out; "": nothing
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_GOOD_SEQUENCE_H_
