#include "common/data/record_graph.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/data/convert.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

// The memory of a block for values that the batch does not have.
constexpr size_t kScratchBytes = 64 << 10;

// Up to 8 columns need no allocated memory.
template <typename T>
using PerColumn = absl::InlinedVector<T, 8>;

// Null if there is none.
const RecordGraph::Output* FindOutput(std::span<const RecordGraph::Output> outputs, int node) {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [node](const auto& output) { return output.node == node; });
  return found == outputs.end() ? nullptr : &*found;
}

}  // namespace

int RecordGraph::Add(Node node) {
  node.bytes = node.type.bytes();
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int RecordGraph::AddSource(size_t column) {
  const FeatureType& type = source_->columns()[column];
  return Add({.type = {"", type.dtype, type.dims}, .source_column = static_cast<int>(column)});
}

int RecordGraph::AddTransform(std::string name, RecordTransform transform, bool elementwise,
                              std::vector<int> inputs, int draws_as) {
  has_transforms_ = true;
  if (transform.conversion) {
    transform.apply = [from = type(inputs[0]).dtype, to = transform.dtype,
                       conversion = *transform.conversion](
                          const RecordContext&, std::span<const std::span<const std::byte>> values,
                          std::span<std::byte> output) {
      ConvertNumbers(from, values[0].data(), to, output.data(), output.size() / SizeOf(to),
                     conversion.scale, conversion.offset);
      return absl::OkStatus();
    };
  }
  const FeatureType type = {"", transform.dtype, transform.dims};
  int level = transform.apply_batch ? 1 : 0;
  for (const int input : inputs) {
    level =
        std::max(level, nodes_[static_cast<size_t>(input)].level + (transform.apply_batch ? 1 : 0));
  }
  levels_ = std::max(levels_, level);
  return Add({.type = type,
              .name = std::move(name),
              .transform = std::move(transform),
              .elementwise = elementwise,
              .inputs = std::move(inputs),
              .draws_as = draws_as < 0 ? nodes_.size() : static_cast<size_t>(draws_as),
              .level = level});
}

uint64_t RecordGraph::RandomKey(uint64_t record, size_t node, uint64_t key) const {
  const PhiloxBlock bits = Philox(record, nodes_[node].draws_as, key);
  return bits[0] | static_cast<uint64_t>(bits[1]) << 32;
}

// One batch: where each needed node writes.
class RecordGraph::Run {
 public:
  Run(const RecordGraph& graph, std::span<const Output> outputs, std::span<const Output> known,
      const Dataset::GatherOptions& options, size_t records)
      : graph_(graph),
        options_(options),
        memory_(graph.nodes_.size()),
        source_values_(graph.source_->columns().size()) {
    for (const Output& output : outputs) {
      NodeMemory& memory = memory_[static_cast<size_t>(output.node)];
      memory.values = static_cast<std::byte*>(output.values);
      memory.is_needed = memory.is_in_batch = true;
    }
    for (const Output& output : known) {
      NodeMemory& memory = memory_[static_cast<size_t>(output.node)];
      memory.values = static_cast<std::byte*>(output.values);
      memory.is_known = memory.is_in_batch = true;
    }
    size_t scratch_bytes = 0;  // for one record
    bool elementwise = true;
    for (size_t n = memory_.size(); n-- > 0;) {
      if (!memory_[n].is_needed) continue;
      const Node& node = graph.nodes_[n];
      memory_[n].bytes = node.bytes;
      if (memory_[n].is_known) continue;
      for (const int input : node.inputs) memory_[static_cast<size_t>(input)].is_needed = true;
      if (!memory_[n].is_in_batch) scratch_bytes += memory_[n].bytes;
      reads_source_ = reads_source_ || node.source_column >= 0;
      elementwise = elementwise && node.elementwise;
    }
    if (!elementwise) {
      block_ = 1;
    } else if (scratch_bytes > 0) {
      block_ = std::clamp<size_t>(kScratchBytes / scratch_bytes, 1, records);
    } else {
      block_ = records;
    }
    for (NodeMemory& memory : memory_) {
      if (!memory.is_needed || memory.is_in_batch) continue;
      auto& block = scratch_.emplace_back(block_ * memory.bytes / sizeof(std::max_align_t) + 1);
      memory.values = reinterpret_cast<std::byte*>(block.data());
    }
  }

  // Computes records `indices` as those from number `row` on of the batch.
  absl::Status Compute(std::span<const uint64_t> indices, size_t row) {
    for (size_t at = 0; at < indices.size(); at += block_) {
      const auto block = indices.subspan(at, std::min(block_, indices.size() - at));
      COHORT_RETURN_IF_ERROR(ComputeBlock(block, row + at));
    }
    return absl::OkStatus();
  }

 private:
  struct NodeMemory {
    std::byte* values = nullptr;
    size_t bytes = 0;  // for one record
    bool is_needed = false;
    bool is_in_batch = false;  // else `values` has memory for a block
    bool is_known = false;     // `values` has been computed before
  };

  absl::Status ComputeBlock(std::span<const uint64_t> indices, size_t row) {
    if (reads_source_) COHORT_RETURN_IF_ERROR(ReadSource(indices, row));
    // Several records are as one for transforms that are elementwise.
    RecordContext context = {.record = graph_.first_ + indices[0], .training = options_.training};
    for (size_t n = 0; n < memory_.size(); ++n) {
      const Node& node = graph_.nodes_[n];
      if (!memory_[n].is_needed || memory_[n].is_known || node.source_column >= 0) continue;
      inputs_.clear();
      for (const int input : node.inputs) {
        inputs_.push_back(At(static_cast<size_t>(input), row, indices.size()));
      }
      if (context.training) {
        context.random_key = graph_.RandomKey(context.record, n, options_.random_key);
      }
      const absl::Status applied =
          node.transform.apply(context, inputs_, At(n, row, indices.size()));
      if (!applied.ok()) {
        return Annotate(applied, fmt::format("{}: record {}", node.name, context.record));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadSource(std::span<const uint64_t> indices, size_t row) {
    for (size_t n = 0; n < memory_.size(); ++n) {
      const int column = graph_.nodes_[n].source_column;
      if (column < 0 || !memory_[n].is_needed || memory_[n].is_known) continue;
      source_values_[static_cast<size_t>(column)] = At(n, row, indices.size());
    }
    if (graph_.first_ > 0) {
      records_.assign(indices.begin(), indices.end());
      for (uint64_t& record : records_) record += graph_.first_;
      indices = records_;
    }
    const absl::Status read = graph_.source_->ReadBatch(indices, options_.training, source_values_);
    return read.ok() ? read : Annotate(read, fmt::format("source {}", graph_.name_));
  }

  std::span<std::byte> At(size_t node, size_t row, size_t records) const {
    const NodeMemory& memory = memory_[node];
    return {memory.values + (memory.is_in_batch ? row * memory.bytes : 0), records * memory.bytes};
  }

  const RecordGraph& graph_;
  const Dataset::GatherOptions& options_;
  PerColumn<NodeMemory> memory_;  // by node
  std::vector<std::vector<std::max_align_t>> scratch_;
  bool reads_source_ = false;
  size_t block_ = 1;                                // records that are computed at a time
  std::vector<uint64_t> records_;                   // those of a block, if `first` is not 0
  PerColumn<std::span<std::byte>> source_values_;   // by column of the source
  std::vector<std::span<const std::byte>> inputs_;  // the transform that runs reads them
};

// The rows of a batch that several threads compute. Each thread has a Run of its own, because a Run
// has memory for its block.
absl::Status RecordGraph::GatherShared(std::span<const uint64_t> indices,
                                       std::span<const Output> outputs,
                                       std::span<const Output> known,
                                       const Dataset::GatherOptions& options) const {
  Mutex mu;
  std::vector<std::unique_ptr<Run>> idle;  // guarded by mu
  size_t first_failed = indices.size();    // guarded by mu
  absl::Status failure;                    // guarded by mu
  options.helpers->ForEach(indices.size(), [&](size_t row) {
    std::unique_ptr<Run> run;
    {
      MutexLock lock(&mu);
      if (row > first_failed) return;
      if (!idle.empty()) {
        run = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (run == nullptr) run = std::make_unique<Run>(*this, outputs, known, options, 1);
    absl::Status computed = run->Compute(indices.subspan(row, 1), row);
    MutexLock lock(&mu);
    idle.push_back(std::move(run));
    if (computed.ok() || row > first_failed) return;
    first_failed = row;
    failure = std::move(computed);
  });
  return failure;
}

absl::Status RecordGraph::GatherRecords(std::span<const uint64_t> indices,
                                        std::span<const Output> outputs,
                                        std::span<const Output> known,
                                        const Dataset::GatherOptions& options) const {
  if (indices.empty() || outputs.empty()) return absl::OkStatus();
  if (options.helpers != nullptr && options.helpers->threads() > 1) {
    return GatherShared(indices, outputs, known, options);
  }
  return Run(*this, outputs, known, options, indices.size()).Compute(indices, /*row=*/0);
}

absl::Status RecordGraph::ApplyToBatch(size_t node, std::span<const uint64_t> indices,
                                       const Output& input, const Output& output,
                                       const Dataset::GatherOptions& options) const {
  RecordContext context = {.record = first_ + indices[0], .training = options.training};
  if (context.training) context.random_key = RandomKey(context.record, node, options.random_key);
  const auto bytes_of = [&](const Output& of) {
    return std::span(static_cast<std::byte*>(of.values),
                     nodes_[static_cast<size_t>(of.node)].bytes * indices.size());
  };
  const absl::Status applied = nodes_[node].transform.apply_batch(
      context, indices.size(), bytes_of(input), bytes_of(output));
  if (applied.ok()) return applied;
  return Annotate(applied,
                  fmt::format("{}: the batch of record {}", nodes_[node].name, context.record));
}

// 1. Marks the nodes that the outputs need.
// 2. For each level: computes for all records what its transforms of batches read, and those
//    outputs that need no more; then applies these transforms.
// 3. Computes the outputs that are left.
absl::Status RecordGraph::GatherLevels(std::span<const uint64_t> indices,
                                       std::span<const Output> outputs,
                                       const Dataset::GatherOptions& options) const {
  if (indices.empty()) return absl::OkStatus();
  std::vector<bool> needed(nodes_.size());
  for (const Output& output : outputs) needed[static_cast<size_t>(output.node)] = true;
  for (size_t n = nodes_.size(); n-- > 0;) {
    if (!needed[n]) continue;
    for (const int input : nodes_[n].inputs) needed[static_cast<size_t>(input)] = true;
  }
  std::vector<std::vector<std::max_align_t>> memory;
  std::vector<Output> known, wanted;
  const auto want = [&](int node) {
    if (FindOutput(known, node) != nullptr || FindOutput(wanted, node) != nullptr) return;
    Output output = {.node = node};
    if (const Output* const in_batch = FindOutput(outputs, node)) {
      output = *in_batch;
    } else {
      const size_t bytes = nodes_[static_cast<size_t>(node)].bytes * indices.size();
      output.values = memory.emplace_back(bytes / sizeof(std::max_align_t) + 1).data();
    }
    wanted.push_back(output);
  };
  const auto compute_wanted = [&] {
    const absl::Status computed = GatherRecords(indices, wanted, known, options);
    known.insert(known.end(), wanted.begin(), wanted.end());
    wanted.clear();
    return computed;
  };
  for (int level = 1; level <= levels_ + 1; ++level) {
    const auto is_applied = [&](size_t n) {
      return needed[n] && nodes_[n].level == level && nodes_[n].transform.apply_batch != nullptr;
    };
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (is_applied(n)) want(nodes_[n].inputs[0]);
    }
    for (const Output& output : outputs) {
      if (nodes_[static_cast<size_t>(output.node)].level < level) want(output.node);
    }
    COHORT_RETURN_IF_ERROR(compute_wanted());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (!is_applied(n)) continue;
      want(static_cast<int>(n));
      const Output output = wanted.back();
      wanted.clear();
      COHORT_RETURN_IF_ERROR(
          ApplyToBatch(n, indices, *FindOutput(known, nodes_[n].inputs[0]), output, options));
      known.push_back(output);
    }
  }
  return absl::OkStatus();
}

absl::Status RecordGraph::Gather(std::span<const uint64_t> indices, std::span<const Output> outputs,
                                 const Dataset::GatherOptions& options) const {
  // The batch may have a column twice: it is computed once.
  PerColumn<Output> computed;
  for (const Output& output : outputs) {
    if (FindOutput(computed, output.node) == nullptr) computed.push_back(output);
  }
  COHORT_RETURN_IF_ERROR(levels_ > 0 ? GatherLevels(indices, computed, options)
                                     : GatherRecords(indices, computed, {}, options));
  for (const Output& output : outputs) {
    const void* values = FindOutput(computed, output.node)->values;
    if (output.values == values) continue;
    std::memcpy(output.values, values,
                indices.size() * nodes_[static_cast<size_t>(output.node)].bytes);
  }
  return absl::OkStatus();
}

}  // namespace cohort
