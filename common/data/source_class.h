#ifndef COHORT_COMMON_DATA_SOURCE_CLASS_H_
#define COHORT_COMMON_DATA_SOURCE_CLASS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/data/data_options.h"
#include "common/data/file_blocks.h"
#include "common/data/record_source.h"
#include "common/schema/class_registry.h"

namespace cohort {

struct Table;
struct TableRequest;

// The process that opens a source.
struct SourceContext {
  DataOptions options;
};

// A source of records: its arguments, and the function that opens it. A dataset names it in a job
// file as `csv: {path: a.csv}` or `source: {csv: {path: a.csv}}`. Each class of this tree has a
// file in common/data/sources, with the line of source_list.h that names it. Others are registered
// at the start of every process of the cluster that opens data:
//
//   Sources().Register({.schema = {.name = "Squares",
//                                  .doc = "The squares of the first numbers.",
//                                  .arguments = {Int("records", "Records.").AtLeast(1)}},
//                       .open = OpenSquares});
struct SourceClass {
  using Open = absl::StatusOr<std::shared_ptr<const RecordSource>>(const Config& config,
                                                                   const SourceContext& context);
  // Reads the requested rows into memory (common/data/table.h). For sources of this tree.
  using ReadTable = absl::StatusOr<Table>(const Config& config, const SourceContext& context,
                                          const TableRequest& request);

  // Cuts the file of a config that names one file. Errors: those of `open`.
  using Split = absl::StatusOr<FileBlocks>(const Config& config, const SourceContext& context,
                                           const BlockCutter::Options& options);

  ClassSchema schema;
  // Arguments that do not determine the records: download addresses and checksums. A job continues
  // when they change.
  std::vector<std::string> no_record_arguments = {};
  // What the schema cannot check; a job file is refused with this error. May be null.
  std::function<absl::Status(const Config& config)> check = nullptr;
  // Either of the two. Errors: NotFound for a missing file, DataLoss for a damaged one,
  // InvalidArgument.
  std::function<Open> open = nullptr;
  std::function<ReadTable> read_table = nullptr;
  // Null: it cannot be the source of a stream (visitation stream).
  std::function<Split> split = nullptr;
};

// All sources. Names ignore case.
ClassRegistry<SourceClass>& Sources();

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_SOURCE_CLASS_H_
