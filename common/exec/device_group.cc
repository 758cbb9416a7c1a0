#include "common/exec/device_group.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace cohort {
namespace {

// Random ops draw in blocks of four elements, which no two devices share.
constexpr int64_t kShareUnit = 4;

size_t At(ValueId v) { return static_cast<size_t>(v); }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceGroup>> DeviceGroup::Make(
    const CompiledProgram& compiled, std::span<const std::shared_ptr<Device>> devices,
    const ValueTable* host, DeviceStep::Options options) {
  std::unique_ptr<DeviceGroup> group(new DeviceGroup(compiled, host));
  const Program& program = compiled.program;
  const int64_t capacity = program.symbols.empty() ? 0 : program.symbols[0].capacity;
  const int64_t count = static_cast<int64_t>(devices.size());
  const int64_t units = (capacity + count * kShareUnit - 1) / (count * kShareUnit);
  const int64_t share = std::min(capacity, units * kShareUnit);
  if (share == capacity) {
    options.share = DeviceStep::All(program);
    COHORT_ASSIGN_OR_RETURN(auto step, DeviceStep::Make(compiled, devices[0], host, options));
    group->steps_.push_back(std::move(step));
    return group;
  }
  for (int64_t first = 0; first < capacity; first += share) {
    const auto& device = devices[static_cast<size_t>(first / share)];
    COHORT_ASSIGN_OR_RETURN(Program part, ProgramOfShare(program, share));
    COHORT_ASSIGN_OR_RETURN(CompiledProgram own,
                            CompileValidProgram(std::move(part), device->kind(), options.lanes));
    for (const CompiledStep& step : own.main) {
      if (step.device_kernel != nullptr) continue;
      return Unimplemented(
          "op \"{}\" has no kernel for {}, so that several devices cannot share a batch",
          program.nodes[static_cast<size_t>(step.node)].op, device->name());
    }
    group->shares_.push_back(std::make_unique<CompiledProgram>(std::move(own)));
    options.share = {.first = first, .examples = share, .alone = false};
    COHORT_ASSIGN_OR_RETURN(auto step,
                            DeviceStep::Make(*group->shares_.back(), device, host, options));
    group->steps_.push_back(std::move(step));
  }
  group->AddResults();
  return group;
}

void DeviceGroup::AddResults() {
  const Program& program = compiled_.program;
  std::vector<Join> joins(program.values.size(), Join::kSum);
  for (const Push& push : program.pushes) {
    if (push.kind == PushKind::kEma && push.value != kNoValue) {
      joins[At(compiled_.roots[At(push.value)])] = Join::kMean;
    }
  }
  for (const MetricPartial& metric : program.metrics) {
    for (const MetricAccumulator& a : metric.accumulators) {
      Join& join = joins[At(compiled_.roots[At(a.value)])];
      if (a.reduction == Reduction::kMin) join = Join::kMin;
      if (a.reduction == Reduction::kMax) join = Join::kMax;
    }
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    const ValueId value = static_cast<ValueId>(v);
    if (!steps_[0]->Computes(value) || compiled_.locations[v].in != Location::kPushed ||
        compiled_.roots[v] != value) {
      continue;
    }
    const std::vector<Dim>& dims = program.values[v].dims;
    const bool of_examples = !dims.empty() && dims[0].symbol == 1;
    results_.push_back({value, of_examples ? Join::kRows : joins[v]});
  }
}

absl::Status DeviceGroup::Run(int lane, int area, const RandomKey& key) {
  absl::Status status;
  size_t launched = 0;
  for (; launched < steps_.size() && status.ok(); ++launched) {
    status = steps_[launched]->Launch(lane, area, key);
  }
  for (size_t i = 0; i < launched; ++i) {
    const absl::Status ended = steps_[i]->Wait();
    if (status.ok()) status = ended;
  }
  COHORT_RETURN_IF_ERROR(status);
  if (steps_.size() > 1) JoinResults();
  return absl::OkStatus();
}

void DeviceGroup::JoinResults() {
  for (const Result& result : results_) {
    const ValueView& to = host_->view(result.value);
    if (result.join == Join::kRows) {
      uint8_t* bytes = to.as<uint8_t>();
      for (const auto& step : steps_) {
        const ValueView& part = step->result_view(result.value);
        const size_t size = static_cast<size_t>(part.elements) * SizeOf(part.dtype);
        std::memcpy(bytes, step->result(result.value), size);
        bytes += size;
      }
    } else if (to.dtype == DType::kFloat32) {
      JoinValue<float>(result);
    } else if (to.dtype == DType::kFloat64) {
      JoinValue<double>(result);
    } else {  // the same on all devices
      std::memcpy(to.data, steps_[0]->result(result.value),
                  static_cast<size_t>(to.elements) * SizeOf(to.dtype));
    }
  }
}

// Devices without examples have nothing to say, unless there are none at all.
template <typename T>
void DeviceGroup::JoinValue(const Result& result) {
  T* const to = host_->view(result.value).as<T>();
  const int64_t n = host_->view(result.value).elements;
  const T all = static_cast<T>(std::max<int64_t>(host_->count(1), 1));
  for (size_t d = 0; d < steps_.size(); ++d) {
    const T* const from = static_cast<const T*>(steps_[d]->result(result.value));
    const T part = static_cast<T>(steps_[d]->examples()) / all;
    if (d == 0) {
      const bool scaled = result.join == Join::kMean && host_->count(1) > 0;
      for (int64_t i = 0; i < n; ++i) to[i] = scaled ? from[i] * part : from[i];
      continue;
    }
    if (steps_[d]->examples() == 0) continue;
    switch (result.join) {
      case Join::kSum:
        for (int64_t i = 0; i < n; ++i) to[i] += from[i];
        break;
      case Join::kMean:
        for (int64_t i = 0; i < n; ++i) to[i] += from[i] * part;
        break;
      case Join::kMin:
        for (int64_t i = 0; i < n; ++i) to[i] = std::min(to[i], from[i]);
        break;
      case Join::kMax:
        for (int64_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i]);
        break;
      case Join::kRows:
        break;
    }
  }
}

size_t DeviceGroup::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& step : steps_) bytes += step->memory_bytes();
  return bytes;
}

int64_t DeviceGroup::transfer_bytes() const {
  int64_t bytes = 0;
  for (const auto& step : steps_) bytes += step->transfer_bytes();
  return bytes;
}

}  // namespace cohort
