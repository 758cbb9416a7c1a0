#ifndef COHORT_COMMON_DATA_RECORD_GRAPH_H_
#define COHORT_COMMON_DATA_RECORD_GRAPH_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/record_source.h"
#include "common/data/transform_class.h"

namespace cohort {

// How the columns of a batch come from a source: a graph whose nodes are columns of the source and
// transforms. A node writes straight into the batch if the batch has its column. One that others
// alone need has memory for a block of records. Immutable and thread-safe once all nodes are added.
class RecordGraph {
 public:
  // The first record is `first` of the source. `name` is for messages.
  RecordGraph(std::string name, std::shared_ptr<const RecordSource> source, uint64_t first)
      : name_(std::move(name)), source_(std::move(source)), first_(first) {}

  // These return the new node. A column of the source.
  int AddSource(size_t column);
  // `name` is for messages. `inputs` are nodes. `elementwise`: see TransformClass. The random
  // numbers of a transform depend on the number of its node.
  int AddTransform(std::string name, RecordTransform transform, bool elementwise,
                   std::vector<int> inputs);

  // The dtype and dims of a node; no name.
  const FeatureType& type(int node) const { return nodes_[static_cast<size_t>(node)].type; }
  bool has_transforms() const { return has_transforms_; }

  // Names the place of a record's column in the files of the source, for errors.
  std::string Place(uint64_t record, std::string_view column) const {
    return source_->Place(first_ + record, column);
  }

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
    size_t bytes = 0;  // for one record
    int source_column = -1;
    // Otherwise a transform.
    std::string name;
    RecordTransform transform;
    bool elementwise = true;
    std::vector<int> inputs;
  };
  int Add(Node node);
  absl::Status GatherShared(std::span<const uint64_t> indices, std::span<const Output> outputs,
                            const Dataset::GatherOptions& options) const;

  const std::string name_;
  const std::shared_ptr<const RecordSource> source_;
  const uint64_t first_;
  std::vector<Node> nodes_;  // each after its inputs
  bool has_transforms_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORD_GRAPH_H_
