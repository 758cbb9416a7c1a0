#include "common/model/text_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::string> ReadTextFile(const std::string& path, std::string_view what) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot be opened: {}", path, std::strerror(errno));
  // A directory can be opened but not read.
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return NotFound("{}: is a directory, not {}", path, what);
  }
  // A device may never end, so reading stops at the largest size.
  std::string text;
  std::array<char, 1 << 16> block;
  while (text.size() <= kMaxTextBytes && in.read(block.data(), block.size()).gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(in.gcount()));
  }
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("{}:1: the file has more than {} bytes, the limit of {}", path,
                           kMaxTextBytes, what);
  }
  if (in.bad()) return NotFound("{}: cannot be read", path);
  return text;
}

}  // namespace cohort
