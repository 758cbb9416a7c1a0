#include "common/checkpoint/find_checkpoint.h"

#include <filesystem>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/best_checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr char kBestName[] = "best";  // stands next to the checkpoints of a directory

absl::StatusOr<std::string> FindBestIn(const std::string& directory, std::string* refused) {
  COHORT_ASSIGN_OR_RETURN(const auto best, FindBest(directory, LinesInto(refused)));
  if (best.has_value()) return (fs::path(directory) / best->checkpoint()).string();
  return NotFound(
      "{} has no best checkpoint: its job has no `keep_best`, or none was validated and is whole",
      directory);
}

}  // namespace

RefusedCallback LinesInto(std::string* text) {
  return [text](const std::string& manifest, const absl::Status& why) {
    const std::string message(why.message());
    const bool names_it = message.starts_with(fs::path(manifest).parent_path().string());
    *text += names_it ? fmt::format("refused: {}\n", message)
                      : fmt::format("refused: {}: {}\n", manifest, message);
  };
}

absl::StatusOr<std::string> FindCheckpoint(const std::string& path, std::string* refused,
                                           std::optional<uint64_t> after_step) {
  if (path.empty()) {
    return UsageError("\"\" names no checkpoint");
  }
  std::error_code ignored;
  // Without a working directory no relative path can be found.
  fs::path clean = fs::absolute(path, ignored).lexically_normal();
  if (clean.empty()) return NotFound("{} does not exist: nor does the working directory", path);
  if (!clean.has_filename()) clean = clean.parent_path();  // a slash at the end
  if (!fs::exists(path, ignored)) {
    if (clean.filename() == kBestName && fs::is_directory(clean.parent_path(), ignored)) {
      return FindBestIn(clean.parent_path().string(), refused);
    }
    return NotFound("{} does not exist", path);
  }
  if (clean.filename() == kManifestName) return clean.parent_path().string();
  if (fs::exists(clean / kManifestName, ignored)) return clean.string();
  COHORT_ASSIGN_OR_RETURN(const auto newest,
                          NewestValid(clean.string(), LinesInto(refused), after_step));
  if (newest.has_value()) return newest->directory;
  if (refused->empty()) {
    return NotFound("{} holds no checkpoint: name a ckpt-... directory, or the directory of such",
                    path);
  }
  const std::string why = std::exchange(*refused, "");
  return DataLoss("{} holds no whole checkpoint; take a copy of it, or an older one:\n{}", path,
                  std::string_view(why).substr(0, why.size() - 1));
}

}  // namespace cohort
