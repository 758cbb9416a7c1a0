#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/checkpoint/safetensors.h"
#include "common/os/child_process.h"
#include "common/weights/keras_file_output.h"
#include "common/weights/weight_source.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = "cohort-read-hdf5";
constexpr size_t kMostErrorBytes = 4096;

// The program that reads HDF5 files: where the programs of a build tree and of an installation are.
absl::StatusOr<std::string> FindProgram() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {".", "../bin", "../libexec/cohort"}) {
    const fs::path program = folder / place / kProgram;
    if (fs::exists(program, error)) return program.lexically_normal().string();
  }
  return Unimplemented(
      "this build of Cohort reads no HDF5 files, because it has no {}: install libhdf5-dev "
      "(deploy/install_dependencies.sh does), configure and build it again",
      kProgram);
}

// The error of the program, or why it ended without one.
absl::Status ErrorOf(const std::string& path, int wait_status, int output) {
  if (WIFSIGNALED(wait_status)) {
    return DataLoss(
        "{}: it cannot be read: the program that reads it, {}, ended by signal {} ({}): the file "
        "is damaged, or no file of Keras",
        path, kProgram, WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  }
  std::string text(kMostErrorBytes, '\0');
  const ssize_t bytes = ::pread(output, text.data(), text.size(), 0);
  text =
      PrintableLine(std::string_view(text).substr(0, bytes < 0 ? 0 : static_cast<size_t>(bytes)));
  switch (WEXITSTATUS(wait_status)) {
    case kInvalidArgumentCode:
      return InvalidArgument("{}", text);
    case static_cast<int>(ExitCode::kData):
      return DataLoss("{}", text);
    default:
      return DataLoss("{}: it cannot be read: {} ended with {}", path, kProgram,
                      WEXITSTATUS(wait_status));
  }
}

// Runs the program, which writes into `output`.
absl::Status Convert(const std::string& path, int output) {
  COHORT_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  ChildProcessOptions options = {.argv = {program, path},
                                 .inherit_environment = false,
                                 .stdout_fd = output,
                                 .own_group = true};
  // No code from elsewhere, but the libraries that this process has.
  options.environment = {{"HDF5_PLUGIN_PRELOAD", "::"}};
  if (const char* const libraries = std::getenv("LD_LIBRARY_PATH"); libraries != nullptr) {
    options.environment.emplace_back("LD_LIBRARY_PATH", libraries);
  }
  COHORT_ASSIGN_OR_RETURN(const auto child, ChildProcess::Start(options));
  const int status = child->Wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return ErrorOf(path, status, output);
}

class KerasWeights : public WeightSource {
 public:
  KerasWeights(const std::string& path, std::unique_ptr<SafetensorsReader> values)
      : WeightSource(path), values_(std::move(values)) {}

  bool names_layers() const override { return !values_->metadata().contains(kByClassKey); }

  absl::Status Open() {
    const auto& metadata = values_->metadata();
    std::vector<SourceTensor> tensors;
    for (const TensorInfo& info : values_->tensors()) {
      SourceTensor& tensor = tensors.emplace_back();
      tensor.name = info.name;
      tensor.dims = info.dims;
      if (!metadata.contains(kOtherTypeKey + info.name)) tensor.dtype = info.dtype;
      if (const size_t end = info.name.find(kModelEnd); end != info.name.npos) {
        tensor.name[end] = '/';
        tensor.model_bytes = end + 1;
      }
      infos_[tensor.name] = &info;
    }
    return SetTensors(std::move(tensors));
  }

 protected:
  absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) override {
    return values_->ReadBytes(*infos_.at(tensor.name), 0, out.size(), out.data());
  }

 private:
  const std::unique_ptr<SafetensorsReader> values_;  // a file in memory
  std::map<std::string, const TensorInfo*> infos_;
};

}  // namespace

bool ReadsHdf5() { return FindProgram().ok(); }

absl::StatusOr<std::unique_ptr<WeightSource>> OpenKerasWeights(const std::string& path) {
  const UniqueFd output(::memfd_create(kProgram, MFD_CLOEXEC));
  if (!output.ok()) return Unavailable("{}: memfd_create: {}", path, std::strerror(errno));
  const absl::Status converted = Convert(path, output.get());
  if (absl::IsUnimplemented(converted)) return Annotate(converted, path);
  COHORT_RETURN_IF_ERROR(converted);
  auto values = SafetensorsReader::Open(fmt::format("/proc/self/fd/{}", output.get()));
  if (!values.ok()) return DataLoss("{}: {} wrote no tensors", path, kProgram);
  auto weights = std::make_unique<KerasWeights>(path, *std::move(values));
  COHORT_RETURN_IF_ERROR(weights->Open());
  return weights;
}

}  // namespace cohort
