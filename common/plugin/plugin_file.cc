#include "common/plugin/plugin_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/base/status.h"
#include "common/plugin/plugin_info.h"

namespace cohort {
namespace {

absl::Status Refused(const std::string& path, std::string_view why) {
  return FailedPrecondition("plugin {} {}", path, why);
}

absl::Status ReadFile(const std::string& path, std::string* bytes) {
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) {
    return NotFound("plugin {} does not exist", path);
  }
  if (!error && type != std::filesystem::file_type::regular) return Refused(path, "is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return Refused(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  bytes->assign(std::istreambuf_iterator<char>(in), {});
  return absl::OkStatus();
}

// Returns false if the file has no info. The text of kMagic alone, as in a program of Cohort, is no
// info: a version follows it there.
bool FindInfo(std::string_view bytes, PluginInfo* info) {
  size_t at = bytes.find(PluginInfo::kMagic);
  while (at != std::string_view::npos && bytes.size() - at >= sizeof(*info)) {
    std::memcpy(info, bytes.data() + at, sizeof(*info));
    if (info->version[0] >= '0' && info->version[0] <= '9') return true;
    at = bytes.find(PluginInfo::kMagic, at + 1);
  }
  return false;
}

}  // namespace

absl::Status CheckPluginFile(const std::string& path) {
  std::string bytes;
  COHORT_RETURN_IF_ERROR(ReadFile(path, &bytes));
  PluginInfo info;
  if (!FindInfo(bytes, &info)) {
    return Refused(path, "is not a plugin of Cohort: it has no COHORT_PLUGIN");
  }
  const PluginInfo own = ThisPluginInfo();
  if (info.version != own.version) {
    return Refused(path, fmt::format("was built against Cohort {}, this is {}: build it again",
                                     info.Version(), own.Version()));
  }
  if (info.facts == own.facts) return absl::OkStatus();
  return Refused(path,
                 fmt::format("was built with another compiler, or other libraries or headers, "
                             "than this Cohort {}: build it again",
                             own.Version()));
}

absl::Status CheckPluginFiles(std::span<const std::string> paths) {
  for (const std::string& path : paths) COHORT_RETURN_IF_ERROR(CheckPluginFile(path));
  return absl::OkStatus();
}

}  // namespace cohort
