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

// Metrics by name.
using Scalars = std::vector<std::pair<std::string, double>>;

// Writes scalars for TensorBoard, one file per incarnation of a process. TensorBoard reads all
// files of a directory as one run. The bytes on disk (tensorflow/core/lib/io/record_writer.h,
// core/util/event.proto), little-endian:
//
//   repeated { uint64 length, uint32 masked crc32c of the length,
//              bytes,         uint32 masked crc32c of the bytes }
//   bytes = Event { double wall_time = 1; int64 step = 2; string file_version = 3;
//                   bytes graph_def = 4;
//                   Summary summary = 5 { repeated Value value = 1 { string tag = 1;
//                                                                    float simple_value = 2; } } }
//
// Used by one thread at a time.
class EventFileWriter {
 public:
  // Writes directory/events.out.tfevents.<seconds>.<host>.<pid>.<number>, which the first Add
  // creates.
  EventFileWriter(const std::string& directory, const Clock* clock);

  // Writes one event with all scalars. It is on disk (not synced) when this returns. Errors: exit
  // code 73 if the file cannot be created, 74 if the write fails. After an error the file contains
  // nothing of the event, and later calls may succeed.
  absl::Status Add(int64_t step, const Scalars& scalars);

  // The same for values as common/report/summary_values.h makes them.
  absl::Status AddValues(int64_t step, const std::vector<std::string>& values);
  // The graph of the run (GraphDefOf).
  absl::Status AddGraph(const std::string& graph_def);

  const std::string& path() const { return path_; }

 private:
  // Writes an event with one field besides its step.
  absl::Status AddField(int64_t step, int field, const std::string& bytes);
  // Creates the file and writes its version.
  absl::Status Begin();
  absl::Status WriteRecord(std::string_view event);

  const Clock* const clock_;
  const std::string directory_;
  const std::string path_;
  std::unique_ptr<AppendFile> file_;  // null before Begin
  int64_t size_ = 0;                  // size of the complete records
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_EVENT_FILE_H_
