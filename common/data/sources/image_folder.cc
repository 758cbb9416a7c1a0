// A folder of images, as keras.utils.image_dataset_from_directory reads it.
#include <absl/strings/match.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "common/base/exit_code.h"
#include "common/base/fnv1a.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/file_bytes.h"
#include "common/data/good_records.h"
#include "common/data/images/image_column.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// No image needs more; a decoder would have to read it all.
constexpr uint64_t kMaxFileBytes = 1 << 30;

struct ImageFile {
  std::string path;  // below the folder
  int64_t label = 0;
  uint64_t bytes = 0;
};

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

bool EndsWithAny(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return absl::EndsWithIgnoreCase(name, ending); });
}

// Adds the images below the directory of a class: directory by directory, sorted.
absl::Status AddClass(const std::string& root, const std::string& name, int64_t label,
                      std::vector<ImageFile>* files) {
  std::map<std::string, std::map<std::string, ImageFile>> found;  // by directory and name
  std::error_code error;
  fs::recursive_directory_iterator entries(fs::path(root) / name, error);
  if (error) return CannotList(root + "/" + name, error);
  for (; entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const std::string file = entries->path().filename().string();
    std::error_code ignored;
    if (entries->is_directory(ignored)) continue;
    const std::string path = entries->path().lexically_relative(root).string();
    if (EndsWithAny(file, {".bmp", ".gif"})) {
      return DataLoss("{}/{}: BMP and GIF are not supported: convert it to PNG or JPEG", root,
                      PrintableLine(path));
    }
    if (!EndsWithAny(file, {".jpg", ".jpeg", ".png"})) continue;
    std::error_code no_size;
    const uint64_t bytes = entries->file_size(no_size);
    if (no_size) {
      return DataLoss("{}/{}: has no size: {}", root, PrintableLine(path), no_size.message());
    }
    found[entries->path().parent_path().string()][file] = {path, label, bytes};
  }
  if (error) return CannotList(root + "/" + name, error);
  for (auto& [directory, images] : found) {
    for (auto& [file, image] : images) files->push_back(std::move(image));
  }
  return absl::OkStatus();
}

// numpy.random.RandomState(seed).shuffle: the order in which Keras splits.
void ShuffleAsNumpy(uint32_t seed, std::vector<ImageFile>* files) {
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
void Split(const Config& config, std::vector<ImageFile>* files) {
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

class ImageFolder : public RecordSource {
 public:
  ImageFolder(std::string root, std::vector<ImageFile> files, const ImageColumn& images)
      : root_(std::move(root)),
        files_(std::move(files)),
        images_(images),
        columns_({{"image", DType::kFloat32, images.dims()}, {"label", DType::kInt64, {}}}) {}

  uint64_t num_records() const override { return files_.size(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }

  std::vector<std::string> warnings() const override {
    return skipped_.empty() ? std::vector<std::string>() : std::vector{skipped_};
  }
  std::string fingerprint() const override {
    uint64_t hash = kFnv1aBasis;
    for (const ImageFile& file : files_) {
      hash = Fnv1a(fmt::format("{}\xff{} {}\xff", file.path, file.label, file.bytes), hash);
    }
    return fmt::format("{} files {:016x}", files_.size(), hash);
  }

  std::string Place(uint64_t record, std::string_view) const override {
    return PrintableLine(root_ + "/" + files_[record].path);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const ImageFile& file = files_[context.record];
    if (!values[1].empty()) std::memcpy(values[1].data(), &file.label, sizeof(file.label));
    if (values[0].empty()) return absl::OkStatus();
    return WithImage(file,
                     [&](std::string_view bytes) { return images_.Decode(bytes, values[0]); });
  }

  // Leaves out the images that cannot be decoded.
  absl::Status SkipCorrupt(const DataOptions& options) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<uint64_t> good,
                            FindGoodRecords(
                                "image_folder", files_.size(), options,
                                [&](uint64_t record) {
                                  return WithImage(files_[record], [&](std::string_view bytes) {
                                    return images_.CheckImage(bytes);
                                  });
                                },
                                &skipped_));
    std::vector<ImageFile> kept;
    for (const uint64_t record : good) kept.push_back(std::move(files_[record]));
    files_ = std::move(kept);
    return absl::OkStatus();
  }

 private:
  // Calls `use` with the bytes of a file. Adds the path to errors.
  template <typename Use>
  absl::Status WithImage(const ImageFile& file, const Use& use) const {
    thread_local std::string bytes;
    const ReleaseIfLarge release(&bytes);
    const std::string path = root_ + "/" + file.path;
    COHORT_RETURN_IF_ERROR(ReadWholeFile(path, kMaxFileBytes, &bytes));
    return Annotate(use(bytes), PrintableLine(path));
  }

  const std::string root_;
  std::vector<ImageFile> files_;
  const ImageColumn images_;
  const std::vector<FeatureType> columns_;
  std::string skipped_;  // what SkipCorrupt has left out; "": nothing
};

absl::Status CheckImageFolder(const Config& config) {
  COHORT_RETURN_IF_ERROR(ImageColumn::Check(config));
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

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenImageFolder(const Config& config,
                                                                    const SourceContext& context) {
  const std::string& directory = config.String("directory");
  const std::string root = context.options.PathOf(directory);
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    return MissingFile({directory, config.String("url"), ""}, root, context.options);
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassNames(config, root));
  std::vector<ImageFile> files;
  for (size_t i = 0; i < classes.size(); ++i) {
    COHORT_RETURN_IF_ERROR(AddClass(root, classes[i], static_cast<int64_t>(i), &files));
  }
  Split(config, &files);
  auto source = std::make_shared<ImageFolder>(root, std::move(files), ImageColumn(config));
  if (source->num_records() == 0) {
    return InvalidArgument("{}: the sub-directories {} have no images (.jpg, .jpeg, .png)", root,
                           PrintableLine(fmt::format("{}", fmt::join(classes, ", "))));
  }
  if (config.String("on_corrupt") == "skip") {
    COHORT_RETURN_IF_ERROR(Annotate(source->SkipCorrupt(context.options), root));
  }
  return source;
}

}  // namespace

SourceClass ImageFolderSource() {
  return {
      .schema =
          {.name = "image_folder",
           .doc = "A folder with a sub-directory of JPEG and PNG files for each class, as "
                  "`image_dataset_from_directory` of Keras reads it: columns `image` (float32, 0 "
                  "to 255) and `label`, the number of the class. Images are decoded when they are "
                  "used.",
           .arguments = ImageColumn::Arguments(
               {String("directory", "A folder below `COHORT_DATA_DIR`, or absolute."),
                Strings("class_names",
                        "The sub-directories, in the order of their labels; none: all, sorted.")
                    .Optional(),
                Float("validation_split",
                      "The share of the images for validation, in [0, 1), drawn as Keras does.")
                    .Optional()
                    .Below(0, 1),
                String("subset", "The part of a split.")
                    .Optional()
                    .OneOf({"training", "validation"}),
                Int("seed", "Of a split; both parts need the same.")
                    .Optional()
                    .Between(0, 4294967295.0),
                OnCorruptArgument(),
                String("url", "Shown in the error if the folder is missing.").Optional()})},
      .no_record_arguments = {"url"},
      .check = CheckImageFolder,
      .open = OpenImageFolder};
}

}  // namespace cohort
