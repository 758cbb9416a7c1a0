#ifndef COHORT_COMMON_DATA_LAZY_COLUMNS_H_
#define COHORT_COMMON_DATA_LAZY_COLUMNS_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/gather.h"
#include "common/data/record_source.h"
#include "common/data/table.h"
#include "common/data/transform_class.h"

namespace cohort {

// The columns of a dataset that are computed when a batch is gathered: those of a RecordSource, and
// the outputs of record transforms. They form a graph of nodes. A node writes straight into the
// batch if the batch has its column; one that others alone need has memory for one record.
// Immutable and thread-safe once all nodes are added.
class LazyColumns {
 public:
  // Without a source: all inputs are columns in memory.
  LazyColumns() = default;
  // The first record is `first` of the source. `name` is for messages.
  LazyColumns(std::string name, std::shared_ptr<const RecordSource> source, uint64_t first)
      : name_(std::move(name)), source_(std::move(source)), first_(first) {}

  // These return the new node. A column of the source.
  int AddSource(size_t column);
  // A number column in memory.
  int AddMemory(const Column& column, uint64_t records);
  // `name` is for messages. `inputs` are nodes.
  int AddTransform(std::string name, RecordTransform transform, std::vector<int> inputs);

  // The dtype and dims of a node; no name.
  const FeatureType& type(int node) const { return nodes_[static_cast<size_t>(node)].type; }

  // The column of a node in a batch, [number of records, dims...].
  struct Output {
    int node = 0;
    void* values = nullptr;
  };
  // Computes records `indices`. Errors: those of the source and of the transforms, with their names
  // and the record; of several, that of the first record.
  absl::Status Gather(std::span<const uint64_t> indices, std::span<const Output> outputs,
                      const Dataset::GatherOptions& options) const;

 private:
  class Run;
  struct Node {
    FeatureType type;
    std::optional<size_t> source_column;
    std::optional<GatheredColumn> memory;
    // Otherwise a transform.
    std::string name;
    RecordTransform transform;
    std::vector<int> inputs;
  };
  int Add(Node node);
  absl::Status GatherShared(std::span<const uint64_t> indices, std::span<const Output> outputs,
                            const Dataset::GatherOptions& options) const;

  std::string name_;
  std::shared_ptr<const RecordSource> source_;
  uint64_t first_ = 0;
  std::vector<Node> nodes_;  // each after its inputs
};

// Errors: InvalidArgument for a dtype or dims that no column can have.
absl::Status CheckColumnType(DType dtype, const Dims& dims);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_LAZY_COLUMNS_H_
