#ifndef COHORT_COMMON_REPORT_EVENT_FILE_H_
#define COHORT_COMMON_REPORT_EVENT_FILE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/report/append_file.h"

namespace cohort {

// Named figures: what a metric has come to.
using Scalars = std::vector<std::pair<std::string, double>>;

// Writes scalars for TensorBoard. One file per life of the process; TensorBoard reads all files of
// a directory as one run. On disk (tensorflow/core/lib/io/record_writer.h, core/util/event.proto):
//
//   repeated { uint64 length, uint32 masked crc32c of the length, bytes, uint32 masked crc32c of
//   the
//              bytes }, little-endian
//   bytes = Event { double wall_time = 1; int64 step = 2; string file_version = 3;
//                   Summary summary = 5 { repeated Value value = 1 { string tag = 1;
//                                                                    float simple_value = 2; } } }
//
// One thread at a time.
class EventFileWriter {
 public:
  // Of directory/events.out.tfevents.<seconds>.<host>.<pid>.<number>, which the first Add makes.
  EventFileWriter(const std::string& directory, const Clock* clock);

  // One event with all the scalars; on disk (not synced) when it returns. Errors: exit 73 where
  // there is no file yet; 74, with none of the event in it. What follows may be added again.
  absl::Status Add(int64_t step, const Scalars& scalars);

  const std::string& path() const { return path_; }

 private:
  // The file, with its version.
  absl::Status Begin();
  absl::Status WriteRecord(std::string_view event);

  const Clock* const clock_;
  const std::string directory_;
  const std::string path_;
  std::unique_ptr<AppendFile> file_;  // null before Begin
  int64_t size_ = 0;                  // of its whole records
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_EVENT_FILE_H_
