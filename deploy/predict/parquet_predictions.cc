// Parquet files of predictions, written by Arrow's C++ libraries.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "deploy/predict/prediction_format.h"

namespace cohort {
namespace {

constexpr uint64_t kGroupBytes = uint64_t{16} << 20;
constexpr uint64_t kMostGroupRows = uint64_t{1} << 20;

std::shared_ptr<arrow::DataType> NumberType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return arrow::float32();
    case DType::kFloat64:
      return arrow::float64();
    case DType::kInt64:
      return arrow::int64();
    case DType::kInt32:
      return arrow::int32();
    default:
      return arrow::uint8();
  }
}

// A number, or lists of a fixed size within each other.
std::shared_ptr<arrow::DataType> TypeOf(const PredictionColumn& column) {
  std::shared_ptr<arrow::DataType> type = NumberType(column.dtype);
  if (column.elements() == 1) return type;
  for (auto size = column.dims.rbegin(); size != column.dims.rend(); ++size) {
    type = arrow::fixed_size_list(arrow::field("element", type, /*nullable=*/false),
                                  static_cast<int32_t>(*size));
  }
  return type;
}

// `length` values of a type whose numbers follow one another in `numbers`.
std::shared_ptr<arrow::ArrayData> DataOf(const std::shared_ptr<arrow::DataType>& type,
                                         int64_t length,
                                         const std::shared_ptr<arrow::Buffer>& numbers) {
  if (type->id() != arrow::Type::FIXED_SIZE_LIST) {
    return arrow::ArrayData::Make(type, length, {nullptr, numbers}, /*null_count=*/0);
  }
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
  auto values = DataOf(list.value_type(), length * list.list_size(), numbers);
  return arrow::ArrayData::Make(type, length, {nullptr}, {std::move(values)}, /*null_count=*/0);
}

// A stream has the numbers of a column. So the row groups, which are cut by the number of records,
// do not depend on the parts.
class Parquet : public PredictionFormat {
 public:
  Parquet(std::vector<PredictionColumn> columns, uint64_t records)
      : columns_(std::move(columns)), records_(records) {}

  size_t streams() const override { return columns_.size(); }
  std::string Header(size_t) const override { return ""; }
  void Append(size_t stream, std::span<const Tensor> batch, std::string* bytes) const override {
    bytes->append(static_cast<const char*>(batch[stream].raw()), batch[stream].num_bytes());
  }

  absl::Status Complete(const std::vector<std::string>& files,
                        const std::string& path) const override {
    const std::string written = files[0] + ".parquet";
    try {
      absl::Status problem;
      const arrow::Status status = Write(files, written, &problem);
      if (!problem.ok()) return problem;
      if (!status.ok()) return Unavailable("{}: {}", path, status.message());
    } catch (const std::exception& error) {
      return Unavailable("{}: {}", path, error.what());
    }
    return PublishPredictions(written, path);
  }

 private:
  // Errors of reading `files` go into `problem`.
  arrow::Status Write(const std::vector<std::string>& files, const std::string& path,
                      absl::Status* problem) const {
    arrow::FieldVector fields;
    uint64_t record_bytes = 0;
    for (const PredictionColumn& column : columns_) {
      fields.push_back(arrow::field(column.name, TypeOf(column), /*nullable=*/false));
      record_bytes += column.elements() * SizeOf(column.dtype);
    }
    const std::shared_ptr<arrow::Schema> schema = arrow::schema(fields);
    ARROW_ASSIGN_OR_RAISE(const auto sink, arrow::io::FileOutputStream::Open(path));
    ARROW_ASSIGN_OR_RAISE(
        const auto writer,
        parquet::arrow::FileWriter::Open(
            *schema, arrow::default_memory_pool(), sink, parquet::default_writer_properties(),
            parquet::ArrowWriterProperties::Builder().store_schema()->build()));
    const uint64_t rows =
        std::clamp<uint64_t>(kGroupBytes / std::max<uint64_t>(1, record_bytes), 1, kMostGroupRows);
    for (uint64_t begin = 0; begin < records_; begin += rows) {
      const uint64_t end = std::min(records_, begin + rows);
      ARROW_ASSIGN_OR_RAISE(const auto group, ReadGroup(files, *schema, begin, end, problem));
      if (group == nullptr) return arrow::Status::OK();
      ARROW_RETURN_NOT_OK(writer->NewRowGroup());
      for (const auto& column : group->columns()) {
        ARROW_RETURN_NOT_OK(writer->WriteColumnChunk(*column));
      }
    }
    ARROW_RETURN_NOT_OK(writer->Close());
    return sink->Close();
  }

  // Records [begin, end); null if they cannot be read.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadGroup(
      const std::vector<std::string>& files, const arrow::Schema& schema, uint64_t begin,
      uint64_t end, absl::Status* problem) const {
    const auto length = static_cast<int64_t>(end - begin);
    std::vector<std::shared_ptr<arrow::ArrayData>> columns;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const uint64_t bytes = columns_[c].elements() * SizeOf(columns_[c].dtype);
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> numbers,
                            arrow::AllocateBuffer(length * static_cast<int64_t>(bytes)));
      const auto file = RandomFile::Open(files[c]);
      *problem = file.status();
      if (problem->ok()) {
        *problem = (*file)->Read(begin * bytes, numbers->mutable_data(), (end - begin) * bytes);
      }
      if (!problem->ok()) return std::shared_ptr<arrow::RecordBatch>();
      columns.push_back(DataOf(schema.field(static_cast<int>(c))->type(), length, numbers));
    }
    return arrow::RecordBatch::Make(std::make_shared<arrow::Schema>(schema), length,
                                    std::move(columns));
  }

  const std::vector<PredictionColumn> columns_;
  const uint64_t records_;
};

}  // namespace

absl::Status CheckParquetPredictions() { return absl::OkStatus(); }

std::unique_ptr<PredictionFormat> ParquetPredictions(std::vector<PredictionColumn> columns,
                                                     uint64_t records) {
  return std::make_unique<Parquet>(std::move(columns), records);
}

}  // namespace cohort
