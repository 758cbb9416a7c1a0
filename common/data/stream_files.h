#ifndef COHORT_COMMON_DATA_STREAM_FILES_H_
#define COHORT_COMMON_DATA_STREAM_FILES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/data_options.h"
#include "common/data/file_blocks.h"

namespace cohort {

namespace v1 {
class DatasetSpec;
class FilePart;
class StreamFile;
class StreamSpec;
}  // namespace v1

// The files of a stream (visitation stream): those that the `path` or `files` of its source match.

// "/data/in/*.csv": the paths and patterns of the source, for messages.
std::string StreamPlace(const v1::DatasetSpec& spec);

// Returns the files that are complete, as the spec would name them: in the order of the patterns,
// then of the bytes of the names. A file is complete when it has its name: those whose names begin
// with `.` or `_` or end with `.tmp`, `.done` or `.skip` are no files of the stream. With
// `done_marker` a file is complete when FILE.done exists. Files that IsLeftOut are returned in
// `left_out` instead, if it is not null, whether they exist or not. Errors: Unavailable if a
// directory cannot be read.
absl::StatusOr<std::vector<std::string>> ListStreamFiles(const v1::DatasetSpec& spec,
                                                         const v1::StreamSpec& stream,
                                                         const DataOptions& options,
                                                         std::set<std::string>* left_out = nullptr);

// True if FILE.skip exists: the user wants what is not read of the file to be left out.
bool IsLeftOut(const std::string& path, const DataOptions& options);
// Appends to an error what a user can do about a file that cannot be read: "message; make
// /data/in/a.csv.skip, and the job leaves out what it has not read of the file". `first`: what can
// be done instead, such as "put it back, or ".
absl::Status AdviseToSkip(absl::Status status, const std::string& path, const DataOptions& options,
                          std::string_view first = "");

// Cuts a complete file into blocks, and counts its batches; the place in the stream is not set.
// Errors: those of SourceClass::Split; FailedPrecondition if the file changes meanwhile.
absl::StatusOr<v1::StreamFile> TakeStreamFile(const v1::DatasetSpec& spec, const std::string& path,
                                              const BlockCutter::Options& cut,
                                              const DataOptions& options);
// Errors: FailedPrecondition that names the file if it has changed since; NotFound if it is gone.
absl::Status CheckStreamFile(const v1::StreamFile& file, const DataOptions& options);

// The dataset of a part (PartOf in file_part.h): its spec, and the options that open it.
struct PartDataset {
  PartDataset(const v1::DatasetSpec& spec, const v1::FilePart& part, const DataOptions& options);
  std::unique_ptr<v1::DatasetSpec> spec;
  DataOptions options;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_STREAM_FILES_H_
