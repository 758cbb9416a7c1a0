#ifndef COHORT_COMMON_DEVICE_GRAPH_PLAN_H_
#define COHORT_COMMON_DEVICE_GRAPH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/tensor/precision.h"

namespace cohort {

// Memory of a device or of the host that an op of a graph reads or writes.
struct MemoryRange {
  const void* begin = nullptr;
  size_t bytes = 0;

  bool Overlaps(const MemoryRange& other) const {
    const auto a = reinterpret_cast<uintptr_t>(begin), b = reinterpret_cast<uintptr_t>(other.begin);
    return a < b + other.bytes && b < a + bytes;
  }
};

// How a grid kernel divides its items: one thread each (of elements), or one block of threads each
// (of rows, which the block works on together).
enum class GridShape : uint8_t { kElements, kRows };

// A kernel that works on the items of a *body*: a plain struct in the memory of the device with
// pointers, sizes and the number of items, which may change from run to run.
struct GridFunction {
  void (*run)(const void* body) = nullptr;  // does so in a loop on the CPU
  const void* entry = nullptr;              // a __global__ function that takes the body's address
};

struct GridLaunch {
  GridFunction function;
  const void* body = nullptr;  // an address of the device
  GridShape shape = GridShape::kElements;
  int64_t items = 0;  // at most
};

struct GraphCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  bool to_device = false;  // else to the host
};

// c[i] = a[i] b[i] for `batch` pairs of matrices that lie one after another: a[m,k], b[k,n], row
// by row, either one stored transposed. float32 or float64. With another precision than float32, a
// and b hold 16-bit values; c is float32, and so are the sums.
struct MatrixProduct {
  DType dtype = DType::kInvalid;  // that of c
  Precision operands = Precision::kFloat32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

// Work of the CPU between copies.
struct HostCall {
  std::function<void()> call;
};

struct GraphOp {
  std::string name;  // for people
  std::variant<GridLaunch, GraphCopy, MatrixProduct, HostCall> work;
  std::vector<MemoryRange> reads, writes;
  std::vector<int> after;  // ops that end before this one begins
};

// The ops of a step, in an order in which they could run one after another. Who adds an op says
// what memory it reads and writes; it then runs after those ops before it that write what it reads
// or writes, or that read what it writes, and beside all others. So nobody orders anything by hand.
class GraphPlan {
 public:
  // The ops that are added next read and write these ranges.
  void Begin(std::string name, std::vector<MemoryRange> reads, std::vector<MemoryRange> writes);

  void Add(GridLaunch launch) { AddOp(launch); }
  void Add(MatrixProduct product) { AddOp(product); }
  void Add(HostCall call) { AddOp(std::move(call)); }
  // A copy reads and writes its own ranges.
  void AddCopy(std::string name, GraphCopy copy);

  const std::vector<GraphOp>& ops() const { return ops_; }
  // The bytes that one run copies between host and device.
  int64_t bytes_to_device() const { return bytes_to_device_; }
  int64_t bytes_to_host() const { return bytes_to_host_; }

 private:
  void AddOp(std::variant<GridLaunch, GraphCopy, MatrixProduct, HostCall> work);

  std::string name_;
  std::vector<MemoryRange> reads_, writes_;
  std::vector<GraphOp> ops_;
  std::vector<std::vector<bool>> before_;  // by op: the ops that end before it begins
  int64_t bytes_to_device_ = 0;
  int64_t bytes_to_host_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_GRAPH_PLAN_H_
