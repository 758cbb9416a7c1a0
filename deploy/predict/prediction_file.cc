#include "deploy/predict/prediction_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

// Element `i` of a tensor as text that reads back as the same number.
std::string NumberText(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return fmt::format("{}", tensor.values<float>()[i]);
    case DType::kFloat64:
      return fmt::format("{}", tensor.values<double>()[i]);
    case DType::kInt64:
      return fmt::format("{}", tensor.values<int64_t>()[i]);
    case DType::kInt32:
      return fmt::format("{}", tensor.values<int32_t>()[i]);
    default:
      return fmt::format("{}", tensor.values<uint8_t>()[i]);
  }
}

// A file of lines, one for each record.
class LinesFile : public PredictionFile {
 public:
  LinesFile(std::unique_ptr<DurableFile> file, std::string path,
            std::vector<PredictionColumn> columns)
      : columns_(std::move(columns)), file_(std::move(file)), path_(std::move(path)) {}
  ~LinesFile() override {
    if (file_ != nullptr) ::unlink(file_->path().c_str());
  }

  absl::Status Append(std::span<const Tensor> batch) override {
    const auto records = static_cast<size_t>(batch[0].dims()[0]);
    for (size_t record = 0; record < records; ++record) AddLine(batch, record, &block_);
    return block_.size() < kBlockBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() override {
    COHORT_RETURN_IF_ERROR(Flush());
    COHORT_RETURN_IF_ERROR(file_->Sync());
    COHORT_RETURN_IF_ERROR(file_->RenameTo(path_));
    return std::exchange(file_, nullptr)->Close();
  }

 protected:
  virtual void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const = 0;
  static size_t ElementsOf(const PredictionColumn& column) {
    return static_cast<size_t>(NumElements(column.dims));
  }

  const std::vector<PredictionColumn> columns_;
  std::string block_;

 private:
  absl::Status Flush() {
    COHORT_RETURN_IF_ERROR(file_->Append(block_.data(), block_.size()));
    block_.clear();
    return absl::OkStatus();
  }

  std::unique_ptr<DurableFile> file_;
  const std::string path_;
};

class CsvFile : public LinesFile {
 public:
  CsvFile(std::unique_ptr<DurableFile> file, std::string path,
          std::vector<PredictionColumn> columns)
      : LinesFile(std::move(file), std::move(path), std::move(columns)) {
    std::string names;
    for (const PredictionColumn& column : columns_) {
      const size_t elements = ElementsOf(column);
      for (size_t i = 0; i < elements; ++i) {
        if (!names.empty()) names += ',';
        names += Quoted(elements == 1 ? column.name : fmt::format("{}_{}", column.name, i));
      }
    }
    block_ = names + "\n";
  }

 protected:
  void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const override {
    bool first = true;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t elements = ElementsOf(columns_[c]);
      for (size_t i = 0; i < elements; ++i) {
        if (!std::exchange(first, false)) *text += ',';
        *text += NumberText(batch[c], record * elements + i);
      }
    }
    *text += '\n';
  }

 private:
  static std::string Quoted(const std::string& name) {
    if (name.find_first_of(",\"\n\r") == std::string::npos) return name;
    std::string quoted = "\"";
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
  }
};

class JsonLinesFile : public LinesFile {
 public:
  using LinesFile::LinesFile;

 protected:
  void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const override {
    *text += '{';
    for (size_t c = 0; c < columns_.size(); ++c) {
      *text += fmt::format("{}{}: ", c == 0 ? "" : ", ", nlohmann::json(columns_[c].name).dump());
      size_t at = record * ElementsOf(columns_[c]);
      AddValue(batch[c], columns_[c].dims, &at, text);
    }
    *text += "}\n";
  }

 private:
  // Nested lists in the shape of the record. JSON has no NaN: null.
  static void AddValue(const Tensor& tensor, std::span<const int64_t> dims, size_t* at,
                       std::string* text) {
    if (dims.empty()) {
      const std::string number = NumberText(tensor, (*at)++);
      const bool finite = number.find_first_of("naif") == std::string::npos;
      *text += finite ? number : "null";
      return;
    }
    *text += '[';
    for (int64_t i = 0; i < dims[0]; ++i) {
      if (i > 0) *text += ", ";
      AddValue(tensor, dims.subspan(1), at, text);
    }
    *text += ']';
  }
};

// The format of numpy.save: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string NpyHeader(const PredictionColumn& column, uint64_t records) {
  const char* const descr = column.dtype == DType::kFloat32   ? "<f4"
                            : column.dtype == DType::kFloat64 ? "<f8"
                            : column.dtype == DType::kInt64   ? "<i8"
                            : column.dtype == DType::kInt32   ? "<i4"
                                                              : "|u1";
  std::string shape = fmt::format("{},", records);
  for (const int64_t size : column.dims) shape += fmt::format(" {},", size);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  constexpr size_t kPreamble = 10, kAlignment = 64;
  header.append(kAlignment - (kPreamble + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header;
}

// An archive of one .npy file for each column. They are written beside it first, because members of
// a ZIP file follow one another.
class NpzFile : public PredictionFile {
 public:
  NpzFile(std::string path, std::vector<PredictionColumn> columns)
      : path_(std::move(path)), columns_(std::move(columns)) {}
  ~NpzFile() override {
    for (const auto& part : parts_) ::unlink(part->path().c_str());
    ::unlink(Temporary().c_str());
  }

  absl::Status Open(uint64_t records) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      COHORT_ASSIGN_OR_RETURN(auto part, DurableFile::Create(fmt::format("{}.{}", Temporary(), c),
                                                             DurableFile::Mode::kReplace));
      parts_.push_back(std::move(part));
      const std::string header = NpyHeader(columns_[c], records);
      COHORT_RETURN_IF_ERROR(parts_[c]->Append(header.data(), header.size()));
    }
    return absl::OkStatus();
  }

  absl::Status Append(std::span<const Tensor> batch) override {
    for (size_t c = 0; c < columns_.size(); ++c) {
      COHORT_RETURN_IF_ERROR(parts_[c]->Append(batch[c].raw(), batch[c].num_bytes()));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    int code = 0;
    zip_t* const archive = zip_open(Temporary().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (archive == nullptr) return Failed(code);
    for (size_t c = 0; c < columns_.size(); ++c) {
      zip_source_t* const source = zip_source_file(archive, parts_[c]->path().c_str(), 0, -1);
      const zip_int64_t index = source == nullptr
                                    ? -1
                                    : zip_file_add(archive, (columns_[c].name + ".npy").c_str(),
                                                   source, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
      if (index < 0) {
        const std::string why = zip_strerror(archive);
        zip_source_free(source);
        zip_discard(archive);
        return Unavailable("{}: {}", path_, why);
      }
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    }
    if (zip_close(archive) != 0) {
      const std::string why = zip_strerror(archive);
      zip_discard(archive);
      return Unavailable("{}: {}", path_, why);
    }
    const UniqueFd written(::open(Temporary().c_str(), O_RDONLY | O_CLOEXEC));
    if (written.get() < 0 || ::fsync(written.get()) != 0) {
      return ErrnoStatus("cannot sync the new", path_, errno);
    }
    if (std::rename(Temporary().c_str(), path_.c_str()) != 0) {
      return ErrnoStatus("cannot rename the new", path_, errno);
    }
    return absl::OkStatus();
  }

 private:
  std::string Temporary() const { return path_ + ".new"; }
  absl::Status Failed(int code) const {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return Unavailable("{}: {}", path_, why);
  }

  const std::string path_;
  const std::vector<PredictionColumn> columns_;
  std::vector<std::unique_ptr<DurableFile>> parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionFile>> PredictionFile::Create(
    const std::string& path, std::vector<PredictionColumn> columns, uint64_t records) {
  if (path.ends_with(".npz")) {
    auto file = std::make_unique<NpzFile>(path, std::move(columns));
    COHORT_RETURN_IF_ERROR(file->Open(records));
    return file;
  }
  const bool csv = path.ends_with(".csv");
  if (!csv && !path.ends_with(".jsonl")) {
    return UsageError(
        "--out {}: predictions are written as .csv, .jsonl or .npz; pandas.read_csv(FILE)"
        ".to_parquet(...) makes Parquet of them",
        path);
  }
  COHORT_ASSIGN_OR_RETURN(auto file,
                          DurableFile::Create(path + ".new", DurableFile::Mode::kReplace));
  if (csv) return std::make_unique<CsvFile>(std::move(file), path, std::move(columns));
  return std::make_unique<JsonLinesFile>(std::move(file), path, std::move(columns));
}

}  // namespace cohort
