#include "common/exec/segment_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/graph/device_name.h"
#include "common/graph/op_registry.h"
#include "common/graph/segments.h"
#include "common/kernels/device_kernel.h"

namespace cohort {
namespace {

class SegmentKernel : public Kernel {
 public:
  SegmentKernel(std::unique_ptr<SegmentRunner> runner, std::vector<bool> reads_data)
      : runner_(std::move(runner)), reads_data_(std::move(reads_data)) {}

  absl::Status Run(const KernelContext& context) const override { return runner_->Run(context); }
  bool reads_data(size_t i) const override { return reads_data_[i]; }
  int64_t transfer_bytes() const override { return runner_->transfer_bytes(); }

 private:
  const std::unique_ptr<SegmentRunner> runner_;
  const std::vector<bool> reads_data_;
};

// Returns true if the kernel of the node, on the CPU or on the device, reads the data of an input.
bool ReadsData(const Node& node, size_t input, const Program& program, std::string_view kind) {
  if (node.op == "reshape") return true;
  const auto kernel = CreateKernel(node, program);
  if (!kernel.ok() || (*kernel)->reads_data(input)) return true;
  if (kind == "cpu") return false;
  const auto on_device = CreateDeviceKernel(node, program, kind);
  return on_device.ok() && (*on_device)->reads_data(input);
}

std::vector<bool> FindReadData(const Program& program, std::string_view kind) {
  std::vector<bool> reads(program.arguments.size(), false);
  for (const Node& node : program.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // Arguments are the first values.
      const auto v = static_cast<size_t>(node.inputs[i]);
      if (v < reads.size() && !reads[v]) reads[v] = ReadsData(node, i, program, kind);
    }
  }
  for (const Output& output : program.outputs) {
    if (const auto v = static_cast<size_t>(output.value); v < reads.size()) reads[v] = true;
  }
  return reads;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateSegmentKernel(const Node& node,
                                                            const Program& program,
                                                            SegmentDevices* devices) {
  COHORT_ASSIGN_OR_RETURN(const DeviceName name, ParseDeviceName(node.device));
  Segment segment{.program = ProgramOfSegment(program, node), .reads_data = {}};
  segment.reads_data = FindReadData(segment.program, name.device.substr(0, name.device.find(':')));
  std::vector<bool> reads_data = segment.reads_data;
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SegmentRunner> runner,
                          devices->MakeRunner(node.device, std::move(segment)));
  return std::make_unique<SegmentKernel>(std::move(runner), std::move(reads_data));
}

}  // namespace cohort
