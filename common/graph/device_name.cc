#include "common/graph/device_name.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr int kMostNumber = 1023;  // a larger one is a typing error

// Reads the number after the colon of "cuda:1"; `none` without a colon.
bool ReadNumber(std::string_view text, int none, int* number) {
  const size_t colon = text.find(':');
  *number = none;
  if (colon == std::string_view::npos) return none >= 0;
  const std::string_view digits = text.substr(colon + 1);
  const bool is_number =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_number && absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), number) &&
         *number <= kMostNumber;
}

bool ReadDevice(std::string_view text, std::string* device) {
  if (text.starts_with("device:")) text.remove_prefix(7);
  std::string kind(text.substr(0, text.find(':')));
  if (kind == "gpu") kind = "cuda";
  int ordinal = 0;
  if ((kind != "cpu" && kind != "cuda" && kind != "simulated") || !ReadNumber(text, 0, &ordinal)) {
    return false;
  }
  *device = fmt::format("{}:{}", kind, ordinal);
  return true;
}

// One of the parts of TensorFlow's names, or of ours, that say which worker it is.
bool ReadWorker(std::string_view text, int* worker) {
  if (text == "job:worker" || text == "replica:0") return true;
  const bool names = text.starts_with("worker:") || text.starts_with("task:");
  return names && ReadNumber(text, -1, worker);
}

}  // namespace

std::string DeviceName::ToString() const {
  return worker == kOwnWorker ? device : fmt::format("worker:{}/{}", worker, device);
}

absl::StatusOr<DeviceName> ParseDeviceName(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
  std::string_view rest = lower;
  if (rest.starts_with('/')) rest.remove_prefix(1);
  DeviceName name;
  bool valid = true;
  while (valid) {
    const size_t end = rest.find('/');
    if (end == std::string_view::npos) {
      valid = ReadDevice(rest, &name.device);
      break;
    }
    valid = ReadWorker(rest.substr(0, end), &name.worker);
    rest.remove_prefix(end + 1);
  }
  if (valid) return name;
  return InvalidArgument(
      "\"{}\" is not a device: write one of this worker, such as \"cuda:1\" or \"cpu:1\", or one "
      "of "
      "another worker, such as \"worker:1/cuda:0\"",
      text);
}

}  // namespace cohort
