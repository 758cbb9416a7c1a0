#include "common/device/simulated_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kAlignment = 256;

// `T`: of c. `Value`: of an element of a or b as a number.
template <typename T, typename Element, typename Value>
void Multiply(const MatrixProduct& p, const Value& value) {
  for (int64_t i = 0; i < p.batch; ++i) {
    const Element* a = static_cast<const Element*>(p.a) + i * p.m * p.k;
    const Element* b = static_cast<const Element*>(p.b) + i * p.k * p.n;
    T* c = static_cast<T*>(p.c) + i * p.m * p.n;
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t j = 0; j < p.k; ++j) {
          sum += value(a[p.transpose_a ? j * p.m + row : row * p.k + j]) *
                 value(b[p.transpose_b ? column * p.k + j : j * p.n + column]);
        }
        c[row * p.n + column] = static_cast<T>(sum);
      }
    }
  }
}

void Multiply(const MatrixProduct& p) {
  const auto number = [](auto x) { return static_cast<double>(x); };
  if (p.operands != Precision::kFloat32) {
    return Multiply<float, uint16_t>(
        p, [&](uint16_t bits) { return static_cast<double>(FromBits(p.operands, bits)); });
  }
  p.dtype == DType::kFloat64 ? Multiply<double, double>(p, number)
                             : Multiply<float, float>(p, number);
}

struct Runner {
  void operator()(const GridLaunch& launch) const { launch.function.run(launch.body); }
  void operator()(const GraphCopy& copy) const {
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
  void operator()(const MatrixProduct& p) const { Multiply(p); }
  void operator()(const HostCall& host) const { host.call(); }
};

class SimulatedGraph : public DeviceGraph {
 public:
  SimulatedGraph(const GraphPlan& plan, uint64_t seed) : ops_(plan.ops()), random_(seed) {}

  absl::Status Launch() override {
    if (std::exchange(launched_, true)) return Internal("the graph runs already");
    for (const GraphOp& op : ops_) {
      const auto* copy = std::get_if<GraphCopy>(&op.work);
      if (copy != nullptr && !copy->to_device) std::memset(copy->to, 0xff, copy->bytes);
    }
    return absl::OkStatus();
  }

  absl::Status Wait() override {
    if (!std::exchange(launched_, false)) return Internal("the graph was not launched");
    std::vector<size_t> left(ops_.size()), ready;
    std::vector<std::vector<size_t>> then(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      left[i] = ops_[i].after.size();
      for (const int before : ops_[i].after) then[static_cast<size_t>(before)].push_back(i);
      if (left[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      std::swap(ready[random_() % ready.size()], ready.back());
      const size_t op = ready.back();
      ready.pop_back();
      std::visit(Runner(), ops_[op].work);
      for (const size_t next : then[op]) {
        if (--left[next] == 0) ready.push_back(next);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<GraphOp> ops_;
  std::mt19937_64 random_;
  bool launched_ = false;
};

class SimulatedDevice : public Device {
 public:
  SimulatedDevice(int ordinal, uint64_t seed, size_t memory_bytes)
      : ordinal_(ordinal),
        seed_(seed),
        memory_bytes_(memory_bytes),
        used_(std::make_shared<std::atomic<size_t>>(0)) {}

  std::string_view kind() const override { return "simulated"; }
  int ordinal() const override { return ordinal_; }
  DeviceInfo info() const override {
    return {.model = "simulated on the CPU",
            .memory_bytes = memory_bytes_,
            .free_bytes = memory_bytes_ - *used_};
  }

  absl::StatusOr<DeviceMemory> Allocate(size_t bytes, std::string_view purpose) override {
    if (bytes > memory_bytes_ - *used_) {
      return ResourceExhausted("{} needs {} bytes of the memory of {}, which has {} of {} free",
                               purpose, bytes, name(), memory_bytes_ - *used_, memory_bytes_);
    }
    *used_ += bytes;
    return Take(bytes, [used = used_, bytes](void* memory) {
      *used -= bytes;
      std::free(memory);
    });
  }
  absl::StatusOr<DeviceMemory> AllocatePinned(size_t bytes, std::string_view) override {
    return Take(bytes, [](void* memory) { std::free(memory); });
  }
  absl::Status CopyToDevice(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return CopyToDevice(to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> Instantiate(const GraphPlan& plan) override {
    return std::make_unique<SimulatedGraph>(plan, seed_++);
  }

 private:
  static DeviceMemory Take(size_t bytes, std::function<void(void*)> free) {
    const size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded);
    std::memset(memory, 0xff, rounded);
    return {memory, bytes, std::move(free)};
  }

  const int ordinal_;
  std::atomic<uint64_t> seed_;
  const size_t memory_bytes_;
  const std::shared_ptr<std::atomic<size_t>> used_;
};

}  // namespace

std::shared_ptr<Device> MakeSimulatedDevice(int ordinal, uint64_t seed, size_t memory_bytes) {
  return std::make_shared<SimulatedDevice>(ordinal, seed, memory_bytes);
}

}  // namespace cohort
