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
  // numbers of a transform depend on the number of its node, or are those of the node `draws_as`.
  int AddTransform(std::string name, RecordTransform transform, bool elementwise,
                   std::vector<int> inputs, int draws_as = -1);

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
    size_t draws_as = 0;  // the node whose random numbers it has
    // The transforms of whole batches on the way from the source, this one included.
    int level = 0;
  };
  int Add(Node node);
  uint64_t RandomKey(uint64_t record, size_t node, uint64_t key) const;
  // Computes nodes record by record. `known`: nodes that the batch has already.
  absl::Status GatherRecords(std::span<const uint64_t> indices, std::span<const Output> outputs,
                             std::span<const Output> known,
                             const Dataset::GatherOptions& options) const;
  // The same for a graph with transforms of whole batches.
  absl::Status GatherLevels(std::span<const uint64_t> indices, std::span<const Output> outputs,
                            const Dataset::GatherOptions& options) const;
  absl::Status ApplyToBatch(size_t node, std::span<const uint64_t> indices, const Output& input,
                            const Output& output, const Dataset::GatherOptions& options) const;
  absl::Status GatherShared(std::span<const uint64_t> indices, std::span<const Output> outputs,
                            std::span<const Output> known,
                            const Dataset::GatherOptions& options) const;

  const std::string name_;
  const std::shared_ptr<const RecordSource> source_;
  const uint64_t first_;
  std::vector<Node> nodes_;  // each after its inputs
  bool has_transforms_ = false;
  int levels_ = 0;  // the highest level of a node
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORD_GRAPH_H_
