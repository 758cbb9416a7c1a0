#include "common/data/lazy_columns.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/work_pool.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

// More than any record; products below it do not overflow.
constexpr int64_t kMaxElements = int64_t{1} << 32;

// Null if there is none.
const LazyColumns::Output* FindOutput(std::span<const LazyColumns::Output> outputs, int node) {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [node](const auto& output) { return output.node == node; });
  return found == outputs.end() ? nullptr : &*found;
}

}  // namespace

absl::Status CheckColumnType(DType dtype, const Dims& dims) {
  if (SizeOf(dtype) == 0) return InvalidArgument("a column has no dtype");
  int64_t elements = 1;
  for (const int64_t size : dims) {
    if (size < 1 || size > kMaxElements / elements) {
      return InvalidArgument("a column cannot have the shape {}", DimsToString(dims));
    }
    elements *= size;
  }
  return absl::OkStatus();
}

int LazyColumns::Add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int LazyColumns::AddSource(size_t column) {
  const FeatureType& type = source_->columns()[column];
  return Add({.type = {"", type.dtype, type.dims}, .source_column = column});
}

int LazyColumns::AddMemory(const Column& column, uint64_t records) {
  return Add({.type = {"", column.dtype, column.dims}, .memory = GatheredColumn(column, records)});
}

int LazyColumns::AddTransform(std::string name, RecordTransform transform,
                              std::vector<int> inputs) {
  const FeatureType type = {"", transform.dtype, transform.dims};
  return Add({.type = type,
              .name = std::move(name),
              .transform = std::move(transform),
              .inputs = std::move(inputs)});
}

// One batch: where each needed node writes.
class LazyColumns::Run {
 public:
  Run(const LazyColumns& columns, std::span<const Output> outputs,
      const Dataset::GatherOptions& options)
      : columns_(columns), options_(options), slots_(columns.nodes_.size()) {
    if (columns.source_ != nullptr) source_values_.resize(columns.source_->columns().size());
    for (const Output& output : outputs) {
      Slot& slot = slots_[static_cast<size_t>(output.node)];
      slot.values = static_cast<std::byte*>(output.values);
      slot.stride = slot.bytes = columns.type(output.node).bytes();
    }
    for (size_t n = slots_.size(); n-- > 0;) {
      if (slots_[n].values == nullptr) continue;
      for (const int input : columns.nodes_[n].inputs) Need(static_cast<size_t>(input));
      reads_source_ = reads_source_ || columns.nodes_[n].source_column.has_value();
    }
  }

  // Computes record `index` as number `row` of the batch.
  absl::Status Compute(uint64_t index, size_t row) {
    RecordContext context = {.record = columns_.first_ + index, .training = options_.training};
    if (reads_source_) {
      for (size_t n = 0; n < slots_.size(); ++n) {
        const auto& column = columns_.nodes_[n].source_column;
        if (column && slots_[n].values != nullptr) source_values_[*column] = At(n, row);
      }
      const absl::Status read = columns_.source_->Read(context, source_values_);
      if (!read.ok()) {
        return Annotate(read, fmt::format("source {}: record {}", columns_.name_, context.record));
      }
    }
    for (size_t n = 0; n < slots_.size(); ++n) {
      const Node& node = columns_.nodes_[n];
      if (slots_[n].values == nullptr || node.source_column) continue;
      if (node.memory) {
        node.memory->Gather({&index, 1}, At(n, row).data());
        continue;
      }
      inputs_.clear();
      for (const int input : node.inputs) inputs_.push_back(At(static_cast<size_t>(input), row));
      if (context.training) context.random_key = RandomKey(context.record, n);
      const absl::Status applied = node.transform.apply(context, inputs_, At(n, row));
      if (!applied.ok()) {
        return Annotate(applied, fmt::format("{}: record {}", node.name, context.record));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    std::byte* values = nullptr;  // null: nobody needs the node
    size_t bytes = 0;             // one record has as many
    size_t stride = 0;            // from one record to the next; 0: memory for one record
  };

  void Need(size_t node) {
    Slot& slot = slots_[node];
    if (slot.values != nullptr) return;
    slot.bytes = columns_.nodes_[node].type.bytes();
    auto& memory = scratch_.emplace_back(slot.bytes / sizeof(std::max_align_t) + 1);
    slot.values = reinterpret_cast<std::byte*>(memory.data());
  }

  std::span<std::byte> At(size_t node, size_t row) const {
    const Slot& slot = slots_[node];
    return {slot.values + row * slot.stride, slot.bytes};
  }

  uint64_t RandomKey(uint64_t record, size_t node) const {
    const PhiloxBlock bits = Philox(record, node, options_.random_key);
    return bits[0] | static_cast<uint64_t>(bits[1]) << 32;
  }

  const LazyColumns& columns_;
  const Dataset::GatherOptions& options_;
  std::vector<Slot> slots_;  // by node
  std::vector<std::vector<std::max_align_t>> scratch_;
  bool reads_source_ = false;
  std::vector<std::span<std::byte>> source_values_;  // by column of the source
  std::vector<std::span<const std::byte>> inputs_;   // the transform that runs reads them
};

// The rows of a batch that several threads compute. Each thread has a Run of its own, because a Run
// has memory for one record.
absl::Status LazyColumns::GatherShared(std::span<const uint64_t> indices,
                                       std::span<const Output> outputs,
                                       const Dataset::GatherOptions& options) const {
  Mutex mu;
  std::vector<std::unique_ptr<Run>> idle;  // guarded by mu
  size_t first_failed = indices.size();    // guarded by mu
  absl::Status failure;                    // guarded by mu
  options.helpers->Run(indices.size(), [&](size_t row) {
    std::unique_ptr<Run> run;
    {
      MutexLock lock(&mu);
      if (row > first_failed) return;
      if (!idle.empty()) {
        run = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (run == nullptr) run = std::make_unique<Run>(*this, outputs, options);
    absl::Status computed = run->Compute(indices[row], row);
    MutexLock lock(&mu);
    idle.push_back(std::move(run));
    if (computed.ok() || row > first_failed) return;
    first_failed = row;
    failure = std::move(computed);
  });
  return failure;
}

absl::Status LazyColumns::Gather(std::span<const uint64_t> indices, std::span<const Output> outputs,
                                 const Dataset::GatherOptions& options) const {
  // The batch may have a column twice: it is computed once.
  std::vector<Output> computed;
  for (const Output& output : outputs) {
    if (FindOutput(computed, output.node) == nullptr) computed.push_back(output);
  }
  if (options.helpers != nullptr && options.helpers->helpers() > 0) {
    COHORT_RETURN_IF_ERROR(GatherShared(indices, computed, options));
  } else {
    Run run(*this, computed, options);
    for (size_t row = 0; row < indices.size(); ++row) {
      COHORT_RETURN_IF_ERROR(run.Compute(indices[row], row));
    }
  }
  for (const Output& output : outputs) {
    const void* values = FindOutput(computed, output.node)->values;
    if (output.values == values) continue;
    std::memcpy(output.values, values, indices.size() * type(output.node).bytes());
  }
  return absl::OkStatus();
}

}  // namespace cohort
