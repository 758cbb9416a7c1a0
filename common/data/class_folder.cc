#include "common/data/class_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/fnv1a.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/input_file.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

absl::Status CannotList(const std::string& path, const std::error_code& error) {
  return WithExitCode(Unavailable("cannot list the folder {}: {}", path, error.message()),
                      ExitCode::kNoInput);
}

// The sub-directories of `root`, sorted.
absl::StatusOr<std::vector<std::string>> FindClasses(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(root, error);
  if (error) return CannotList(root, error);
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && entries->is_directory(ignored)) names.push_back(name);
  }
  if (error) return CannotList(root, error);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<std::string>> ClassNames(const Config& config, const std::string& root) {
  COHORT_ASSIGN_OR_RETURN(std::vector<std::string> found, FindClasses(root));
  const std::vector<std::string> given = config.Strings("class_names");
  for (const std::string& name : given) {
    if (!std::binary_search(found.begin(), found.end(), name)) {
      return InvalidArgument("{}: has no sub-directory \"{}\" of `class_names`; it has {}", root,
                             PrintableLine(name),
                             PrintableLine(fmt::format("{}", fmt::join(found, ", "))));
    }
  }
  if (!given.empty()) return given;
  if (found.empty()) return InvalidArgument("{}: has no sub-directory, one for each class", root);
  return found;
}

// Adds the files below the directory of a class: directory by directory, sorted.
absl::Status AddClass(const std::string& root, const std::string& name, int64_t label,
                      TakesFile takes, std::vector<ClassFile>* files) {
  std::map<std::string, std::map<std::string, ClassFile>> found;  // by directory and name
  std::error_code error;
  fs::recursive_directory_iterator entries(fs::path(root) / name, error);
  if (error) return CannotList(root + "/" + name, error);
  for (; entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const std::string file = entries->path().filename().string();
    std::error_code ignored;
    if (entries->is_directory(ignored)) continue;
    const std::string path = entries->path().lexically_relative(root).string();
    const absl::StatusOr<bool> taken = takes(file);
    if (!taken.ok()) {
      return Annotate(taken.status(), fmt::format("{}/{}", root, PrintableLine(path)));
    }
    if (!*taken) continue;
    std::error_code no_size;
    const uint64_t bytes = entries->file_size(no_size);
    if (no_size) {
      return DataLoss("{}/{}: has no size: {}", root, PrintableLine(path), no_size.message());
    }
    found[entries->path().parent_path().string()][file] = {path, label, bytes};
  }
  if (error) return CannotList(root + "/" + name, error);
  for (auto& [directory, of_directory] : found) {
    for (auto& [name_of_file, file] : of_directory) files->push_back(std::move(file));
  }
  return absl::OkStatus();
}

// numpy.random.RandomState(seed).shuffle: the order in which Keras splits.
void ShuffleAsNumpy(uint32_t seed, std::vector<ClassFile>* files) {
  std::mt19937 random(seed);
  for (uint32_t i = static_cast<uint32_t>(files->size()); i-- > 1;) {
    uint32_t mask = i;
    for (const int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
    uint32_t other = 0;
    do {
      other = static_cast<uint32_t>(random()) & mask;
    } while (other > i);
    std::swap((*files)[i], (*files)[other]);
  }
}

// Keeps the files of the subset.
void Split(const Config& config, std::vector<ClassFile>* files) {
  if (config.IsNone("validation_split")) return;
  ShuffleAsNumpy(static_cast<uint32_t>(config.Int("seed")), files);
  const auto validation =
      static_cast<ptrdiff_t>(config.Float("validation_split") * static_cast<double>(files->size()));
  const auto boundary = files->end() - validation;
  if (config.String("subset") == "training") {
    files->erase(boundary, files->end());
  } else {
    files->erase(files->begin(), boundary);
  }
}

}  // namespace

std::vector<Argument> ClassFolderArguments(std::vector<Argument> more) {
  std::vector<Argument> arguments = {
      String("directory", "A folder below `COHORT_DATA_DIR`, or absolute."),
      Strings("class_names",
              "The sub-directories, in the order of their labels; none: all, sorted.")
          .Optional(),
      Float("validation_split",
            "The share of the files for validation, in [0, 1), drawn as Keras does.")
          .Optional()
          .Below(0, 1),
      String("subset", "The part of a split.").Optional().OneOf({"training", "validation"}),
      Int("seed", "Of a split; both parts need the same.").Optional().Between(0, 4294967295.0)};
  for (Argument& argument : more) arguments.push_back(std::move(argument));
  arguments.push_back(String("url", "Shown in the error if the folder is missing.").Optional());
  return arguments;
}

absl::Status CheckClassFolder(const Config& config) {
  const bool split = !config.IsNone("validation_split");
  if (split == config.IsNone("subset")) {
    return InvalidArgument("`validation_split` and `subset` need each other");
  }
  if (split && config.IsNone("seed")) {
    return InvalidArgument(
        "`validation_split` needs a `seed`, the same for both subsets: otherwise they overlap");
  }
  return absl::OkStatus();
}

absl::StatusOr<ClassFolder> ReadClassFolder(const Config& config, const DataOptions& options,
                                            TakesFile takes, std::string_view kind) {
  const std::string& directory = config.String("directory");
  ClassFolder folder = {.root = options.PathOf(directory)};
  std::error_code error;
  if (!fs::is_directory(folder.root, error)) {
    return MissingFile({directory, config.String("url"), ""}, folder.root, options);
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassNames(config, folder.root));
  for (size_t i = 0; i < classes.size(); ++i) {
    COHORT_RETURN_IF_ERROR(
        AddClass(folder.root, classes[i], static_cast<int64_t>(i), takes, &folder.files));
  }
  Split(config, &folder.files);
  if (!folder.files.empty()) return folder;
  return InvalidArgument("{}: the sub-directories {} have no {}", folder.root,
                         PrintableLine(fmt::format("{}", fmt::join(classes, ", "))), kind);
}

std::string FingerprintOf(const std::vector<ClassFile>& files) {
  uint64_t hash = kFnv1aBasis;
  for (const ClassFile& file : files) {
    hash = Fnv1a(fmt::format("{}\xff{} {}\xff", file.path, file.label, file.bytes), hash);
  }
  return fmt::format("{} files {:016x}", files.size(), hash);
}

}  // namespace cohort
