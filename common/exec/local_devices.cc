#include "common/exec/local_devices.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/exec/executable.h"
#include "common/graph/device_name.h"

namespace cohort {
namespace {

// Memory that someone else owns and that outlives the tensor.
class BorrowedMemory : public BufferMemory {};

size_t BytesOf(const ValueView& view) {
  return static_cast<size_t>(view.elements) * SizeOf(view.dtype);
}

class LocalSegment : public SegmentRunner {
 public:
  explicit LocalSegment(std::unique_ptr<Executable> executable)
      : executable_(std::move(executable)) {}

  // Arguments lie where the program has them: Run only reads them.
  absl::Status Run(const KernelContext& context) override {
    arguments_.clear();
    for (size_t i = 0; i < executable_->program().arguments.size(); ++i) {
      const ValueView& view = context.in(i);
      auto buffer =
          BufferRef::Within(std::make_unique<BorrowedMemory>(), view.as<uint8_t>(), BytesOf(view));
      arguments_.emplace_back(view.dtype, Dims(view.dims, view.dims + view.rank),
                              std::move(buffer));
    }
    COHORT_RETURN_IF_ERROR(executable_->Bind(arguments_));
    COHORT_RETURN_IF_ERROR(executable_->Prepare(*context.random));
    COHORT_RETURN_IF_ERROR(executable_->Run());
    for (size_t i = 0; i < executable_->program().outputs.size(); ++i) {
      std::memcpy(context.out(i).data, executable_->output_data(i), BytesOf(context.out(i)));
    }
    return absl::OkStatus();
  }
  int64_t transfer_bytes() const override { return executable_->transfer_bytes(); }

 private:
  const std::unique_ptr<Executable> executable_;
  std::vector<Tensor> arguments_;
};

}  // namespace

LocalDevices::LocalDevices(std::vector<std::shared_ptr<Device>> own, const DeviceOptions& options,
                           int threads)
    : own_(own.empty() ? "" : own[0]->name()), options_(options), threads_(threads) {
  MutexLock lock(&mu_);
  for (std::shared_ptr<Device>& device : own) devices_[device->name()] = device;
}

std::string LocalDevices::Resolve(const std::string& device) const {
  if (device.empty()) return own_;
  const auto parsed = ParseDeviceName(device);
  const std::string name = parsed.ok() ? parsed->device : device;
  return name == "cpu:0" ? "" : name;
}

absl::StatusOr<std::shared_ptr<Device>> LocalDevices::Open(const std::string& name) {
  MutexLock lock(&mu_);
  std::shared_ptr<Device>& device = devices_[name];
  if (device == nullptr) {
    COHORT_ASSIGN_OR_RETURN(device, OpenDevice(name, options_));
  }
  return device;
}

absl::StatusOr<std::unique_ptr<SegmentRunner>> LocalDevices::MakeRunner(const std::string& device,
                                                                        Segment segment) {
  CompileOptions compile;
  compile.intra_op_threads = threads_;
  if (!IsCpu(device)) {
    COHORT_ASSIGN_OR_RETURN(auto opened, Open(device));
    compile.devices = {std::move(opened)};
  }
  COHORT_ASSIGN_OR_RETURN(auto executable,
                          Executable::Compile(std::move(segment.program), compile));
  return std::make_unique<LocalSegment>(std::move(executable));
}

}  // namespace cohort
