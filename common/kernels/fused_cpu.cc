// fused: a chain of elementwise nodes (common/graph/fuse.h). Runs the kernels of its nodes on one
// block of elements after another; the values between them lie on the stack, in the cache.
#include <algorithm>
#include <array>

#include "common/base/thread_pool.h"
#include "common/graph/fuse.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

// Elements of a block, and the most values that it keeps at a time. A chain keeps two or three: 24
// KiB in float32.
constexpr int64_t kBlock = 2048;
constexpr size_t kCells = kMaxFused;
constexpr size_t kCellBytes = kBlock * 8;

// What one of the kernels reads or writes.
struct Location {
  Operand operand = Operand::kFull;
  DType dtype = DType::kInvalid;
  int outside = -1;  // an input of the node; -1: a cell, or the output
  int cell = -1;     // -1: the output of the node
};

struct Part {
  std::unique_ptr<Kernel> kernel;
  std::vector<Location> inputs;
  Location output;
};

constexpr size_t kMostInputs = 3;

class FusedKernel : public Kernel {
 public:
  FusedKernel(std::vector<Part> parts, bool by_rows, std::vector<bool> full)
      : parts_(std::move(parts)), by_rows_(by_rows), full_(std::move(full)) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& out = c.out();
    if (out.elements == 0) return absl::OkStatus();
    // Without operands of one row all elements are one row, which splits anywhere.
    const int64_t columns = by_rows_ ? out.dims[out.rank - 1] : out.elements;
    if (!by_rows_) {
      c.pool->ParallelFor(columns, kElementGrain,
                          [&](int64_t begin, int64_t end) { RunRow(c, 0, begin, end); });
      return absl::OkStatus();
    }
    c.pool->ParallelFor(out.elements / columns, RowGrain(columns), [&](int64_t begin, int64_t end) {
      if (columns > kBlock) {
        for (int64_t r = begin; r < end; ++r) RunRow(c, r * columns, 0, columns);
        return;
      }
      const int64_t rows = kBlock / columns;
      for (int64_t r = begin; r < end; r += rows) {
        RunBlock(c, r * columns, 0, std::min(rows, end - r), columns);
      }
    });
    return absl::OkStatus();
  }
  bool in_place(size_t i) const override { return full_[i]; }

 private:
  // Columns begin to end of the row that starts at this element.
  void RunRow(const KernelContext& c, int64_t first, int64_t begin, int64_t end) const {
    for (int64_t at = begin; at < end; at += kBlock) {
      RunBlock(c, first + at, at, 1, std::min(kBlock, end - at));
    }
  }

  // `first`: the first element of the block, which is in this column.
  void RunBlock(const KernelContext& c, int64_t first, int64_t column, int64_t rows,
                int64_t columns) const {
    static ThreadPool& one_thread = *new ThreadPool(1);
    alignas(64) std::array<std::byte, kCells * kCellBytes> cells;
    const std::array<int64_t, 2> dims = {rows, columns};
    const auto view = [&](const Location& location, const ValueView* outside) {
      ValueView v;
      v.dtype = location.dtype;
      if (location.operand != Operand::kScalar) {
        v.rank = location.operand == Operand::kFull && rows > 1 ? 2 : 1;
        v.dims = dims.data() + 2 - v.rank;
        v.elements = v.rank == 2 ? rows * columns : columns;
      }
      if (outside == nullptr) {
        v.data = cells.data() + static_cast<size_t>(location.cell) * kCellBytes;
      } else {
        const int64_t skipped = location.operand == Operand::kFull  ? first
                                : location.operand == Operand::kRow ? column
                                                                    : 0;
        v.data = outside->as<std::byte>() + skipped * static_cast<int64_t>(SizeOf(location.dtype));
      }
      return v;
    };
    for (const Part& part : parts_) {
      std::array<ValueView, kMostInputs> in;
      std::array<const ValueView*, kMostInputs> inputs;
      for (size_t i = 0; i < part.inputs.size(); ++i) {
        const Location& location = part.inputs[i];
        in[i] = view(location, location.outside >= 0 ? c.inputs[location.outside] : nullptr);
        inputs[i] = &in[i];
      }
      const ValueView out = view(part.output, part.output.cell < 0 ? c.outputs[0] : nullptr);
      const ValueView* const output = &out;
      const KernelContext context{.inputs = inputs.data(), .outputs = &output, .pool = &one_thread};
      (void)part.kernel->Run(context);  // elementwise kernels have no errors
    }
  }

  const std::vector<Part> parts_;
  const bool by_rows_;
  const std::vector<bool> full_;  // by input
};

// The cells of the values between the nodes: each is free again after the node that uses it.
class Cells {
 public:
  int Take(ValueId v) {
    size_t cell = 0;
    while (cell < held_.size() && held_[cell] != kNoValue) ++cell;
    if (cell == held_.size()) held_.push_back(kNoValue);
    held_[cell] = v;
    return static_cast<int>(cell);
  }
  int Find(ValueId v) const {
    const auto found = std::ranges::find(held_, v);
    return found == held_.end() ? -1 : static_cast<int>(found - held_.begin());
  }
  void Free(ValueId v) { std::ranges::replace(held_, v, kNoValue); }

 private:
  std::vector<ValueId> held_;
};

}  // namespace

KernelOr CreateFusedCpu(const Node& node, const Program& program) {
  const ValueType& type = program.type(node.outputs[0]);
  std::vector<Part> parts;
  std::vector<bool> full(node.inputs.size(), false);
  bool by_rows = false;
  Cells cells;
  for (const Node& member : node.body) {
    Part part;
    COHORT_ASSIGN_OR_RETURN(part.kernel, CreateKernel(member, program));
    for (const ValueId v : member.inputs) {
      Location location{.operand = OperandOf(program.type(v), type),
                        .dtype = program.type(v).dtype};
      location.cell = cells.Find(v);
      if (location.cell < 0) {
        location.outside =
            static_cast<int>(std::ranges::find(node.inputs, v) - node.inputs.begin());
        full[static_cast<size_t>(location.outside)] = location.operand == Operand::kFull;
      }
      by_rows = by_rows || location.operand == Operand::kRow;
      part.inputs.push_back(location);
    }
    const ValueId out = member.outputs[0];
    part.output.dtype = program.type(out).dtype;
    if (out != node.outputs[0]) part.output.cell = cells.Take(out);
    for (const ValueId v : member.inputs) cells.Free(v);
    parts.push_back(std::move(part));
  }
  return std::make_unique<FusedKernel>(std::move(parts), by_rows, std::move(full));
}

}  // namespace cohort
