#include "common/data/lazy_columns.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// More than any record; products below it do not overflow.
constexpr int64_t kMaxElements = int64_t{1} << 32;

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
  Run(const LazyColumns& columns, std::span<const Output> outputs)
      : columns_(columns), slots_(columns.nodes_.size()) {
    if (columns.source_ != nullptr) source_values_.resize(columns.source_->columns().size());
    for (const Output& output : outputs) {
      Slot& slot = slots_[static_cast<size_t>(output.node)];
      if (slot.values != nullptr) continue;  // the batch has the column twice
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
    const RecordContext context = {columns_.first_ + index};
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
      const absl::Status applied = node.transform.apply(context, inputs_, At(n, row));
      if (!applied.ok()) {
        return Annotate(applied, fmt::format("{}: record {}", node.name, context.record));
      }
    }
    return absl::OkStatus();
  }

  const std::byte* values(int node) const { return slots_[static_cast<size_t>(node)].values; }

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

  const LazyColumns& columns_;
  std::vector<Slot> slots_;  // by node
  std::vector<std::vector<std::max_align_t>> scratch_;
  bool reads_source_ = false;
  std::vector<std::span<std::byte>> source_values_;  // by column of the source
  std::vector<std::span<const std::byte>> inputs_;   // the transform that runs reads them
};

absl::Status LazyColumns::Gather(std::span<const uint64_t> indices,
                                 std::span<const Output> outputs) const {
  Run run(*this, outputs);
  for (size_t row = 0; row < indices.size(); ++row) {
    COHORT_RETURN_IF_ERROR(run.Compute(indices[row], row));
  }
  for (const Output& output : outputs) {
    if (output.values == run.values(output.node)) continue;
    std::memcpy(output.values, run.values(output.node), indices.size() * type(output.node).bytes());
  }
  return absl::OkStatus();
}

}  // namespace cohort
