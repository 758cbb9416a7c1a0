// A folder of images, as keras.utils.image_dataset_from_directory reads it.
#include <absl/strings/match.h>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/class_folder.h"
#include "common/data/file_bytes.h"
#include "common/data/good_records.h"
#include "common/data/images/image_column.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

// No image needs more; a decoder would have to read it all.
constexpr uint64_t kMaxFileBytes = 1 << 30;

// The files that are images. Errors: DataLoss for an image of another format.
absl::StatusOr<bool> IsImage(const std::string& path) {
  const auto ends_with = [&](const char* ending) { return absl::EndsWithIgnoreCase(path, ending); };
  if (ends_with(".bmp") || ends_with(".gif")) {
    return DataLoss("BMP and GIF are not supported: convert it to PNG or JPEG");
  }
  return ends_with(".jpg") || ends_with(".jpeg") || ends_with(".png");
}

class ImageFolder : public RecordSource {
 public:
  ImageFolder(std::string root, std::vector<ClassFile> files, const ImageColumn& images)
      : root_(std::move(root)),
        files_(std::move(files)),
        images_(images),
        columns_({{"image", DType::kFloat32, images.dims()}, {"label", DType::kInt64, {}}}) {}

  uint64_t num_records() const override { return files_.size(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }

  std::vector<std::string> warnings() const override {
    return skipped_.empty() ? std::vector<std::string>() : std::vector{skipped_};
  }
  std::string fingerprint() const override { return FingerprintOf(files_); }

  std::string Place(uint64_t record, std::string_view) const override {
    return PrintableLine(root_ + "/" + files_[record].path);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const ClassFile& file = files_[context.record];
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
    std::vector<ClassFile> kept;
    for (const uint64_t record : good) kept.push_back(std::move(files_[record]));
    files_ = std::move(kept);
    return absl::OkStatus();
  }

 private:
  // Calls `use` with the bytes of a file. Adds the path to errors.
  template <typename Use>
  absl::Status WithImage(const ClassFile& file, const Use& use) const {
    thread_local std::string bytes;
    const ReleaseIfLarge release(&bytes);
    const std::string path = root_ + "/" + file.path;
    COHORT_RETURN_IF_ERROR(ReadWholeFile(path, kMaxFileBytes, &bytes));
    return Annotate(use(bytes), PrintableLine(path));
  }

  const std::string root_;
  std::vector<ClassFile> files_;
  const ImageColumn images_;
  const std::vector<FeatureType> columns_;
  std::string skipped_;  // what SkipCorrupt has left out; "": nothing
};

absl::Status CheckImageFolder(const Config& config) {
  COHORT_RETURN_IF_ERROR(ImageColumn::Check(config));
  return CheckClassFolder(config);
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenImageFolder(const Config& config,
                                                                    const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(ClassFolder folder, ReadClassFolder(config, context.options, IsImage,
                                                              "images (.jpg, .jpeg, .png)"));
  auto source =
      std::make_shared<ImageFolder>(folder.root, std::move(folder.files), ImageColumn(config));
  if (config.String("on_corrupt") == "skip") {
    COHORT_RETURN_IF_ERROR(Annotate(source->SkipCorrupt(context.options), folder.root));
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
           .arguments = ImageColumn::Arguments(ClassFolderArguments({OnCorruptArgument()}))},
      .no_record_arguments = {"url"},
      .check = CheckImageFolder,
      .open = OpenImageFolder};
}

}  // namespace cohort
