#include "deploy/launcher/export_checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/find_checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/tensor/table_rows.h"
#include "common/weights/weight_source.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// The names of the variables as JSON, in the order in which the model declares them.
absl::StatusOr<std::string> NamesInOrder(const std::string& checkpoint) {
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(checkpoint));
  nlohmann::json names = nlohmann::json::array();
  for (const v1::VariableSpec& variable : manifest.layout().variables()) {
    names.push_back(variable.name());
  }
  return names.dump();
}

absl::Status WriteSafetensors(WeightSource* weights, const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const std::string names, NamesInOrder(weights->path()));
  std::vector<SafetensorsWriter::Entry> entries;
  const auto& tensors = weights->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    COHORT_RETURN_IF_ERROR(AddEntries(*weights, i, tensors[i].name, tensors[i].dtype, &entries));
  }
  COHORT_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(
          path, entries,
          {{"format", "np"}, {"checkpoint", weights->path()}, {"variables", names}}));
  for (size_t i = 0; i < tensors.size(); ++i) {
    COHORT_RETURN_IF_ERROR(AppendTo(weights, i, tensors[i].dtype, writer.get()));
  }
  return writer->Finish().status();
}

// Ends with a sentence instead of a traceback if the package is not there.
constexpr char kPython[] = R"(
import sys
try:
    from cohort.__main__ import main
except ModuleNotFoundError as error:
    sys.exit(f"cohort: error: --format needs Python's packages cohort, numpy, safetensors and "
             f"pyyaml, and {sys.executable} lacks {error.name}: install the wheel of Cohort "
             f"(pip install cohort-*.whl), or add deploy/python of the sources to PYTHONPATH")
sys.exit(main(sys.argv[1:]))
)";

}  // namespace

bool IsPythonFormat(std::string_view format) {
  return format == "keras" || format == "weights_h5" || format == "saved_model" ||
         format == "onnx" || format == "torch";
}

absl::Status ExportByPython(const std::string& bin_dir, const std::vector<std::string>& arguments) {
  setenv("COHORT_BIN_DIR", bin_dir.c_str(), /*overwrite=*/0);
  std::vector<const char*> argv = {"python3", "-c", kPython};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  execvp(argv[0], const_cast<char* const*>(argv.data()));
  return NotFound(
      "python3 cannot be executed ({}): --format safetensors needs no Python, the other formats do",
      std::strerror(errno));
}

absl::StatusOr<std::string> ExportCheckpoint(const ExportOptions& options) {
  if (options.format != "safetensors") {
    return UsageError(
        "--format {}: a model is exported as safetensors, keras, weights_h5, saved_model, onnx or "
        "torch",
        options.format);
  }
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string checkpoint,
                          FindCheckpoint(options.checkpoint, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto weights, OpenCheckpointWeights(checkpoint));
  const std::string temporary = options.out + ".new";
  absl::Status written = WriteSafetensors(weights.get(), temporary);
  if (written.ok() && std::rename(temporary.c_str(), options.out.c_str()) != 0) {
    written = ErrnoStatus("cannot rename the new", options.out, errno);
  }
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  std::string tables;
  for (const SourceTensor& tensor : weights->tensors()) {
    if (!IsTable(tensor.dims)) continue;
    COHORT_ASSIGN_OR_RETURN(const uint64_t rows, weights->TableSize(tensor));
    tables += fmt::format("{}: {} rows of a table without bounds, and their keys as {}\n",
                          tensor.name, rows, KeysNameOf(tensor.name));
  }
  return fmt::format("{}{}: {} variables of {}\n{}", refused, options.out,
                     weights->tensors().size(), checkpoint, tables);
}

}  // namespace cohort
