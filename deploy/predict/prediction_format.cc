#include "deploy/predict/prediction_format.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

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

// Lines, one for each record, are one stream.
class Lines : public PredictionFormat {
 public:
  explicit Lines(std::vector<PredictionColumn> columns) : columns_(std::move(columns)) {}

  size_t streams() const override { return 1; }
  std::string Header(size_t) const override { return ""; }
  void Append(size_t, std::span<const Tensor> batch, std::string* bytes) const override {
    const auto records = static_cast<size_t>(batch[0].dims()[0]);
    for (size_t record = 0; record < records; ++record) AddLine(batch, record, bytes);
  }
  absl::Status Complete(const std::vector<std::string>& files,
                        const std::string& path) const override {
    return PublishPredictions(files[0], path);
  }

 protected:
  virtual void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const = 0;

  const std::vector<PredictionColumn> columns_;
};

class Csv : public Lines {
 public:
  using Lines::Lines;

  std::string Header(size_t) const override {
    std::string names;
    for (const PredictionColumn& column : columns_) {
      for (size_t i = 0; i < column.elements(); ++i) {
        if (!names.empty()) names += ',';
        names +=
            Quoted(column.elements() == 1 ? column.name : fmt::format("{}_{}", column.name, i));
      }
    }
    return names + "\n";
  }

 protected:
  void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const override {
    bool first = true;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t elements = columns_[c].elements();
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

class JsonLines : public Lines {
 public:
  using Lines::Lines;

 protected:
  void AddLine(std::span<const Tensor> batch, size_t record, std::string* text) const override {
    *text += '{';
    for (size_t c = 0; c < columns_.size(); ++c) {
      *text += fmt::format("{}{}: ", c == 0 ? "" : ", ", nlohmann::json(columns_[c].name).dump());
      size_t at = record * columns_[c].elements();
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

// The bytes of a batch of a column, as .npy files have them.
void AppendArray(const Tensor& column, std::string* bytes) {
  bytes->append(static_cast<const char*>(column.raw()), column.num_bytes());
}

// An archive of one .npy file for each column: each is a stream.
class Npz : public PredictionFormat {
 public:
  Npz(std::vector<PredictionColumn> columns, uint64_t records)
      : columns_(std::move(columns)), records_(records) {}

  size_t streams() const override { return columns_.size(); }
  std::string Header(size_t stream) const override { return NpyHeader(columns_[stream], records_); }
  void Append(size_t stream, std::span<const Tensor> batch, std::string* bytes) const override {
    AppendArray(batch[stream], bytes);
  }

  absl::Status Complete(const std::vector<std::string>& files,
                        const std::string& path) const override {
    const std::string archive_path = files[0] + ".zip";
    int code = 0;
    zip_t* const archive = zip_open(archive_path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (archive == nullptr) return CannotCreate(path, code);
    const absl::Status added = AddMembers(archive, files, path);
    if (!added.ok() || zip_close(archive) != 0) {
      const absl::Status failed =
          added.ok() ? Unavailable("{}: {}", path, zip_strerror(archive)) : added;
      zip_discard(archive);
      return failed;
    }
    return PublishPredictions(archive_path, path);
  }

 private:
  absl::Status AddMembers(zip_t* archive, const std::vector<std::string>& files,
                          const std::string& path) const {
    for (size_t c = 0; c < columns_.size(); ++c) {
      zip_source_t* const source = zip_source_file(archive, files[c].c_str(), 0, -1);
      const zip_int64_t index = source == nullptr
                                    ? -1
                                    : zip_file_add(archive, (columns_[c].name + ".npy").c_str(),
                                                   source, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
      if (index < 0) {
        zip_source_free(source);
        return Unavailable("{}: {}", path, zip_strerror(archive));
      }
      const auto member = static_cast<zip_uint64_t>(index);
      zip_set_file_compression(archive, member, ZIP_CM_STORE, 0);
      zip_file_set_dostime(archive, member, 0, kDateOfMembers, 0);
    }
    return absl::OkStatus();
  }

  static absl::Status CannotCreate(const std::string& path, int code) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return Unavailable("{}: {}", path, why);
  }

  // 1980-01-01, as numpy.savez writes it: equal predictions are equal bytes.
  static constexpr zip_uint16_t kDateOfMembers = 1 << 5 | 1;

  const std::vector<PredictionColumn> columns_;
  const uint64_t records_;
};

}  // namespace

absl::Status PredictionFormat::CheckName(std::string_view path) {
  if (path.ends_with(".parquet")) return CheckParquetPredictions();
  for (const char* ending : {".csv", ".jsonl", ".npz"}) {
    if (path.ends_with(ending)) return absl::OkStatus();
  }
  return UsageError("--out {}: predictions are written as .csv, .jsonl, .npz or .parquet", path);
}

absl::StatusOr<std::unique_ptr<PredictionFormat>> PredictionFormat::Create(
    std::string_view path, std::vector<PredictionColumn> columns, uint64_t records) {
  COHORT_RETURN_IF_ERROR(CheckName(path));
  if (path.ends_with(".npz")) return std::make_unique<Npz>(std::move(columns), records);
  if (path.ends_with(".parquet")) return ParquetPredictions(std::move(columns), records);
  if (path.ends_with(".csv")) return std::make_unique<Csv>(std::move(columns));
  return std::make_unique<JsonLines>(std::move(columns));
}

absl::Status PublishPredictions(const std::string& file, const std::string& path) {
  const UniqueFd written(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (written.get() < 0 || ::fsync(written.get()) != 0) {
    return ErrnoStatus("cannot sync the new", path, errno);
  }
  if (std::rename(file.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("cannot rename the new", path, errno);
  }
  return absl::OkStatus();
}

}  // namespace cohort
