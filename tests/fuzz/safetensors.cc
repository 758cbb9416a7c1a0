#include "common/checkpoint/safetensors.h"

#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

absl::Status DecodeSafetensors(std::string_view bytes) {
  const auto reader = SafetensorsReader::Open(FileOf(bytes));
  if (!reader.ok()) return reader.status();
  for (const TensorInfo& info : (*reader)->tensors()) {
    std::string values(info.bytes, '\0');
    const absl::Status read = (*reader)->ReadBytes(info, 0, info.bytes, values.data());
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

std::vector<std::string> SafetensorsSeeds() {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  return {std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header +
          "12345678"};
}

}  // namespace

FuzzTarget SafetensorsTarget() { return {"safetensors", DecodeSafetensors, SafetensorsSeeds}; }

}  // namespace cohort::fuzz
