// Arrow's C++ libraries throw nothing through parquet::arrow, but decoders below it may.
#include "common/data/parquet/parquet_files.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fcntl.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/file_bytes.h"
#include "common/data/parquet/group_cache.h"
#include "common/data/records/file_sequence.h"
#include "common/data/records/record_field.h"

namespace cohort {
namespace {

using arrow::Type;

absl::Status Damaged(const std::string& place, const std::string& why) {
  return DataLoss("{}: cannot be read as Parquet: {}", place,
                  PrintableLine(why.substr(0, why.find('\n'))));
}

// Calls `f`, which returns arrow::Status, and makes a status of its errors and exceptions.
template <typename F>
absl::Status Guarded(const std::string& place, const F& f) {
  try {
    const arrow::Status status = f();
    return status.ok() ? absl::OkStatus() : Damaged(place, status.message());
  } catch (const std::exception& error) {
    return Damaged(place, error.what());
  }
}

// How the values of a type become numbers of a column.
struct NumberType {
  DType dtype = DType::kInvalid;
  double scale = 1;  // times the stored value
};

double UnitsPerSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1e3;
    case arrow::TimeUnit::MICRO:
      return 1e6;
    case arrow::TimeUnit::NANO:
      return 1e9;
  }
  return 1;
}

// kInvalid if the type is none of numbers.
NumberType NumberTypeOf(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::BOOL:
      return {DType::kBool};
    case Type::UINT8:
      return {DType::kUint8};
    case Type::INT8:
    case Type::INT16:
    case Type::UINT16:
    case Type::INT32:
      return {DType::kInt32};
    case Type::UINT32:
    case Type::INT64:
    case Type::UINT64:
      return {DType::kInt64};
    case Type::HALF_FLOAT:
    case Type::FLOAT:
      return {DType::kFloat32};
    case Type::DOUBLE:
    case Type::DECIMAL128:
      return {DType::kFloat64};
    case Type::DATE32:
      return {DType::kFloat64};
    case Type::DATE64:
      return {DType::kFloat64, 1 / 86'400e3};
    case Type::TIME32:
      return {DType::kFloat64,
              1 / UnitsPerSecond(static_cast<const arrow::Time32Type&>(type).unit())};
    case Type::TIME64:
      return {DType::kFloat64,
              1 / UnitsPerSecond(static_cast<const arrow::Time64Type&>(type).unit())};
    case Type::TIMESTAMP:
      return {DType::kFloat64,
              1 / UnitsPerSecond(static_cast<const arrow::TimestampType&>(type).unit())};
    case Type::DURATION:
      return {DType::kFloat64,
              1 / UnitsPerSecond(static_cast<const arrow::DurationType&>(type).unit())};
    default:
      return {};
  }
}

bool IsWords(const arrow::DataType& type) {
  if (type.id() == Type::DICTIONARY) {
    return IsWords(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return type.id() == Type::STRING || type.id() == Type::LARGE_STRING;
}

bool IsList(const arrow::DataType& type) {
  return type.id() == Type::LIST || type.id() == Type::LARGE_LIST ||
         type.id() == Type::FIXED_SIZE_LIST;
}

// The values of the lists [first, first + count), and the length of each.
struct ListSlice {
  std::shared_ptr<arrow::Array> values;
  std::vector<int64_t> offsets;  // count + 1, within `values`
};

template <typename List>
ListSlice SliceOf(const arrow::Array& array) {
  const auto& list = static_cast<const List&>(array);
  ListSlice slice = {list.values(), {}};
  for (int64_t i = 0; i < list.length(); ++i) slice.offsets.push_back(list.value_offset(i));
  slice.offsets.push_back(list.length() == 0 ? 0
                                             : list.value_offset(list.length() - 1) +
                                                   list.value_length(list.length() - 1));
  return slice;
}

ListSlice ListsOf(const arrow::Array& array) {
  switch (array.type_id()) {
    case Type::LIST:
      return SliceOf<arrow::ListArray>(array);
    case Type::LARGE_LIST:
      return SliceOf<arrow::LargeListArray>(array);
    default:
      return SliceOf<arrow::FixedSizeListArray>(array);
  }
}

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const float sign = (half >> 15) != 0 ? -1.0F : 1.0F;
  const auto fraction = static_cast<float>(half & 1023);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(1 + fraction / 1024, exponent - 15);
}

// A column of the files.
struct ParquetColumn {
  std::string name;
  FeatureType type;
  std::shared_ptr<arrow::DataType> stored;
  NumberType numbers;
  std::optional<double> missing;      // stands for null
  absl::Status null;                  // without it: why null is an error
  const RecordField* list = nullptr;  // what fills a shorter list; null: there is none
};

// Writes the numbers of an array, one after another.
class NumberWriter {
 public:
  NumberWriter(const ParquetColumn& column, std::vector<uint8_t>* out)
      : column_(column), out_(out) {}

  // Elements [begin, end) of an array of numbers.
  absl::Status Write(const arrow::Array& array, int64_t begin, int64_t end) {
    const size_t size = SizeOf(column_.type.dtype);
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = out_->size();
      out_->resize(at + size);
      absl::Status written;
      if (!array.IsNull(i)) {
        written = WriteOne(array, i, out_->data() + at);
      } else if (column_.missing) {
        ConvertNumbers(DType::kFloat64, &*column_.missing, column_.type.dtype, out_->data() + at,
                       1);
      } else {
        written = column_.null;
      }
      if (written.ok()) continue;
      out_->resize(at);  // so that the size tells the row
      return written;
    }
    return absl::OkStatus();
  }

  // Writes `value` `count` times.
  void Fill(double value, size_t count) {
    const size_t size = SizeOf(column_.type.dtype);
    for (; count > 0; --count) {
      out_->resize(out_->size() + size);
      ConvertNumbers(DType::kFloat64, &value, column_.type.dtype,
                     out_->data() + out_->size() - size, 1);
    }
  }

 private:
  template <typename ArrayType>
  void Copy(const arrow::Array& array, int64_t i, uint8_t* out) const {
    const auto value = static_cast<const ArrayType&>(array).Value(i);
    WithType(column_.type.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T number = column_.numbers.scale == 1
                           ? static_cast<T>(value)
                           : static_cast<T>(static_cast<double>(value) * column_.numbers.scale);
      std::memcpy(out, &number, sizeof(number));
    });
  }

  absl::Status WriteOne(const arrow::Array& array, int64_t i, uint8_t* out) const {
    switch (array.type_id()) {
      case Type::BOOL:
        Copy<arrow::BooleanArray>(array, i, out);
        break;
      case Type::UINT8:
        Copy<arrow::UInt8Array>(array, i, out);
        break;
      case Type::INT8:
        Copy<arrow::Int8Array>(array, i, out);
        break;
      case Type::INT16:
        Copy<arrow::Int16Array>(array, i, out);
        break;
      case Type::UINT16:
        Copy<arrow::UInt16Array>(array, i, out);
        break;
      case Type::INT32:
        Copy<arrow::Int32Array>(array, i, out);
        break;
      case Type::UINT32:
        Copy<arrow::UInt32Array>(array, i, out);
        break;
      case Type::INT64:
        Copy<arrow::Int64Array>(array, i, out);
        break;
      case Type::UINT64: {
        const uint64_t value = static_cast<const arrow::UInt64Array&>(array).Value(i);
        if (!std::in_range<int64_t>(value)) return DataLoss("{} is too large for int64", value);
        Copy<arrow::UInt64Array>(array, i, out);
        break;
      }
      case Type::HALF_FLOAT: {
        const float value =
            HalfToFloat(static_cast<const arrow::HalfFloatArray&>(array).GetView(i));
        std::memcpy(out, &value, sizeof(value));
        break;
      }
      case Type::FLOAT:
        Copy<arrow::FloatArray>(array, i, out);
        break;
      case Type::DOUBLE:
        Copy<arrow::DoubleArray>(array, i, out);
        break;
      case Type::DECIMAL128: {
        const auto& decimals = static_cast<const arrow::Decimal128Array&>(array);
        const auto& type = static_cast<const arrow::Decimal128Type&>(*array.type());
        const double value = arrow::Decimal128(decimals.GetValue(i)).ToDouble(type.scale());
        std::memcpy(out, &value, sizeof(value));
        break;
      }
      case Type::DATE32:
        Copy<arrow::Date32Array>(array, i, out);
        break;
      case Type::DATE64:
        Copy<arrow::Date64Array>(array, i, out);
        break;
      case Type::TIME32:
        Copy<arrow::Time32Array>(array, i, out);
        break;
      case Type::TIME64:
        Copy<arrow::Time64Array>(array, i, out);
        break;
      case Type::TIMESTAMP:
        Copy<arrow::TimestampArray>(array, i, out);
        break;
      case Type::DURATION:
        Copy<arrow::DurationArray>(array, i, out);
        break;
      default:
        return Internal("{} is no type of numbers", array.type()->ToString());
    }
    return absl::OkStatus();
  }

  const ParquetColumn& column_;
  std::vector<uint8_t>* const out_;
};

// An open file. Thread-safe.
class ParquetFile {
 public:
  static absl::StatusOr<ParquetFile> Open(const InputFile& input, const DataOptions& options) {
    COHORT_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Open(input, options));
    ParquetFile file(std::move(bytes));
    const int fd = ::fcntl(file.file_.fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return ResourceExhausted("{}: cannot be opened once more", file.file_.path());
    COHORT_RETURN_IF_ERROR(Guarded(PrintableLine(file.file_.path()), [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(auto stream, arrow::io::ReadableFile::Open(fd));
      parquet::arrow::FileReaderBuilder builder;
      ARROW_RETURN_NOT_OK(builder.Open(std::move(stream)));
      ARROW_ASSIGN_OR_RAISE(file.reader_, builder.Build());
      return file.reader_->GetSchema(&file.schema_);
    }));
    uint64_t rows = 0;
    for (int group = 0; group < file.reader_->num_row_groups(); ++group) {
      rows += static_cast<uint64_t>(
          file.reader_->parquet_reader()->metadata()->RowGroup(group)->num_rows());
      file.ends_.push_back(rows);
    }
    return file;
  }

  const FileBytes& file() const { return file_; }
  uint64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  const arrow::Schema& schema() const { return *schema_; }
  size_t groups() const { return ends_.size(); }

  struct Row {
    size_t group = 0;
    uint64_t row = 0;  // in the group
  };
  Row Find(uint64_t record) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), record);
    const auto group = static_cast<size_t>(end - ends_.begin());
    return {group, record - (group == 0 ? 0 : ends_[group - 1])};
  }
  uint64_t RowsOf(size_t group) const { return ends_[group] - (group == 0 ? 0 : ends_[group - 1]); }
  uint64_t FirstOf(size_t group) const { return group == 0 ? 0 : ends_[group - 1]; }

  // Reads the named columns of a row group.
  absl::StatusOr<std::shared_ptr<arrow::Table>> ReadGroup(
      size_t group, const std::vector<std::string>& columns) const {
    std::vector<int> leaves;
    for (const std::string& name : columns) AddLeaves(name, &leaves);
    std::shared_ptr<arrow::Table> table;
    const std::string place = fmt::format("{}: row group {}", PrintableLine(file_.path()), group);
    MutexLock lock(mu_.get());
    COHORT_RETURN_IF_ERROR(Guarded(place, [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(table, reader_->ReadRowGroup(static_cast<int>(group), leaves));
      return table->Validate();
    }));
    if (static_cast<uint64_t>(table->num_rows()) == RowsOf(group)) return table;
    return Damaged(
        place, fmt::format("it has {} rows, {} are expected", table->num_rows(), RowsOf(group)));
  }

 private:
  explicit ParquetFile(FileBytes file) : file_(std::move(file)), mu_(std::make_unique<Mutex>()) {}

  void AddLeaves(const std::string& name, std::vector<int>* leaves) const {
    const auto& fields = reader_->manifest().schema_fields;
    const std::function<void(const parquet::arrow::SchemaField&)> add =
        [&](const parquet::arrow::SchemaField& field) {
          if (field.is_leaf()) leaves->push_back(field.column_index);
          for (const auto& child : field.children) add(child);
        };
    for (const auto& field : fields) {
      if (field.field->name() == name) add(field);
    }
  }

  FileBytes file_;
  std::unique_ptr<Mutex> mu_;  // a reader is for one thread
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<uint64_t> ends_;  // the rows up to each group's end
};

class ParquetRecords : public RecordSource {
 public:
  ParquetRecords(FileSequence<ParquetFile> files, ParquetOptions options)
      : files_(std::move(files)), options_(std::move(options)), cache_(options_.cache_bytes) {}

  absl::Status FindColumns() {
    const ParquetFile& first = files_.files()[0];
    std::set<std::string> names;
    for (const auto& field : first.schema().fields()) {
      if (!options_.columns.empty() && std::find(options_.columns.begin(), options_.columns.end(),
                                                 field->name()) == options_.columns.end()) {
        continue;
      }
      // pandas keeps the index of a frame as a column.
      if (options_.columns.empty() && field->name().starts_with("__index_level_")) continue;
      if (!names.insert(field->name()).second) {
        return InvalidArgument("{}: two columns are named \"{}\"", first.file().path(),
                               PrintableLine(field->name()));
      }
      COHORT_RETURN_IF_ERROR(AddColumn(*field));
    }
    for (const std::string& name : options_.columns) {
      if (names.contains(name)) continue;
      return InvalidArgument(
          "{}: has no column \"{}\" of `columns`; it has {}", first.file().path(),
          PrintableLine(name),
          PrintableLine(fmt::format("{}", fmt::join(first.schema().field_names(), ", "))));
    }
    for (const auto& [name, list] : options_.lists) {
      if (names.contains(name)) continue;
      return InvalidArgument("{}: has no column \"{}\" of `lists`", first.file().path(),
                             PrintableLine(name));
    }
    for (const ParquetFile& file : files_.files()) COHORT_RETURN_IF_ERROR(CheckSchema(file));
    return absl::OkStatus();
  }

  uint64_t num_records() const override { return files_.records(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  const std::vector<FeatureType>& word_columns() const override { return word_columns_; }
  std::map<std::string, std::string> no_features() const override { return no_features_; }
  std::string fingerprint() const override { return files_.fingerprint(); }
  std::string Place(uint64_t record, std::string_view) const override {
    const auto [file, row] = files_.Find(record);
    return PlaceOf(file, row);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const auto [file, record] = files_.Find(context.record);
    const ParquetFile::Row row = file.Find(record);
    COHORT_ASSIGN_OR_RETURN(const GroupCache::Group group, cache_.Get({&file, row.group}, [&] {
      return Decode(file, row.group);
    }));
    for (size_t c = 0; c < values.size(); ++c) {
      if (values[c].empty()) continue;
      COHORT_RETURN_IF_ERROR(group->errors[c]);
      std::memcpy(values[c].data(), group->columns[c].data() + row.row * values[c].size(),
                  values[c].size());
    }
    return absl::OkStatus();
  }

  absl::Status ReadWords(uint64_t record, std::span<const size_t> columns,
                         AddWord add) const override {
    const auto [file, number] = files_.Find(record);
    const ParquetFile::Row row = file.Find(number);
    MutexLock lock(&words_mu_);
    if (words_file_ != &file || words_group_ != row.group ||
        !std::equal(columns.begin(), columns.end(), words_columns_.begin(), words_columns_.end())) {
      std::vector<std::string> names;
      for (const size_t column : columns) names.push_back(word_columns_[column].name);
      COHORT_ASSIGN_OR_RETURN(words_table_, file.ReadGroup(row.group, names));
      words_columns_.assign(columns.begin(), columns.end());
      words_file_ = &file;
      words_group_ = row.group;
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      const FeatureType& type = word_columns_[columns[i]];
      const absl::Status added =
          AddWords(*words_table_->GetColumnByName(type.name), static_cast<int64_t>(row.row), type,
                   [&](std::string_view word) { add(i, word); });
      if (added.ok()) continue;
      return Annotate(
          added, fmt::format("{}: column \"{}\"", PlaceOf(file, number), PrintableLine(type.name)));
    }
    return absl::OkStatus();
  }

 private:
  static std::string PlaceOf(const ParquetFile& file, uint64_t row) {
    return fmt::format("{}: row {}", PrintableLine(file.file().path()), row);
  }

  absl::Status AddColumn(const arrow::Field& field) {
    ParquetColumn column;
    column.name = field.name();
    column.stored = field.type();
    column.type.name = field.name();
    const arrow::DataType* type = field.type().get();
    const auto list = options_.lists.find(field.name());
    if (list != options_.lists.end()) {
      column.list = &list->second;
      if (!IsList(*type)) {
        return InvalidArgument("column \"{}\" of `lists` has the type {}",
                               PrintableLine(field.name()), PrintableLine(type->ToString()));
      }
    }
    if (IsList(*type)) {
      int64_t length = column.list != nullptr ? column.list->type.dims[0] : 0;
      if (column.list == nullptr) {
        COHORT_ASSIGN_OR_RETURN(length, LengthOf(field));
      }
      if (length == 0) {
        no_features_[field.name()] = fmt::format("column \"{}\" has an empty list in the first row",
                                                 PrintableLine(field.name()));
        return absl::OkStatus();
      }
      column.type.dims = {length};
      type = static_cast<const arrow::BaseListType&>(*type).value_type().get();
    }
    column.numbers = NumberTypeOf(*type);
    column.type.dtype = column.numbers.dtype;
    if (column.list != nullptr && IsWords(*type) != column.list->is_words()) {
      return InvalidArgument("column \"{}\" of `lists` has the type {}: declare it as {}",
                             PrintableLine(field.name()), PrintableLine(field.type()->ToString()),
                             IsWords(*type) ? "`words: {length: N}`" : "`{length: N}`");
    }
    if (IsWords(*type)) {
      word_columns_.push_back(column.type);
    } else if (column.type.dtype == DType::kInvalid) {
      no_features_[field.name()] =
          fmt::format("column \"{}\" has the type {}, which no feature can be made of",
                      PrintableLine(field.name()), PrintableLine(field.type()->ToString()));
      return absl::OkStatus();
    } else {
      if (column.list != nullptr) {
        COHORT_RETURN_IF_ERROR(
            Annotate(CheckFill(column.type, "pad_with", *column.list->padding),
                     fmt::format("column \"{}\" of `lists`", PrintableLine(field.name()))));
      }
      SetMissing(&column);
      columns_.push_back(column.type);
      numbers_.push_back(column);
    }
    types_[field.name()] = field.type();
    return absl::OkStatus();
  }

  // A number that the column cannot hold stands for nothing there: another column may need it, and
  // most columns that may be null have none.
  void SetMissing(ParquetColumn* column) const {
    column->null = DataLoss("is null: `missing` would stand for it");
    if (!options_.missing) return;
    const absl::Status fits = CheckFill(column->type, "missing", *options_.missing);
    if (fits.ok()) {
      column->missing = options_.missing;
    } else {
      column->null = DataLoss("is null, and {}", std::string(fits.message()));
    }
  }

  // The length of the lists of a column: by its type, or that of the first row.
  absl::StatusOr<int64_t> LengthOf(const arrow::Field& field) const {
    if (field.type()->id() == Type::FIXED_SIZE_LIST) {
      return static_cast<const arrow::FixedSizeListType&>(*field.type()).list_size();
    }
    for (const ParquetFile& file : files_.files()) {
      for (size_t group = 0; group < file.groups(); ++group) {
        if (file.RowsOf(group) == 0) continue;
        COHORT_ASSIGN_OR_RETURN(const auto table, file.ReadGroup(group, {field.name()}));
        for (const auto& chunk : table->column(0)->chunks()) {
          if (chunk->length() == 0) continue;
          const ListSlice lists = ListsOf(*chunk);
          return lists.offsets[1] - lists.offsets[0];
        }
      }
    }
    return 0;
  }

  absl::Status CheckSchema(const ParquetFile& file) const {
    for (const auto& [name, type] : types_) {
      const auto field = file.schema().GetFieldByName(name);
      if (field != nullptr && field->type()->Equals(*type)) continue;
      return InvalidArgument("{}: its column \"{}\" has the type {}, and {} has {}",
                             file.file().path(), PrintableLine(name),
                             field == nullptr ? "none" : field->type()->ToString(),
                             files_.files()[0].file().path(), type->ToString());
    }
    return absl::OkStatus();
  }

  absl::Status AddWords(const arrow::ChunkedArray& column, int64_t row, const FeatureType& type,
                        absl::FunctionRef<void(std::string_view word)> add) const {
    int chunk = 0;
    while (row >= column.chunk(chunk)->length()) row -= column.chunk(chunk++)->length();
    const arrow::Array* array = column.chunk(chunk).get();
    ListSlice lists;
    int64_t begin = row, end = row + 1;
    const RecordField* field = nullptr;
    if (IsList(*array->type())) {
      lists = ListsOf(*array);
      begin = lists.offsets[static_cast<size_t>(row)];
      end = lists.offsets[static_cast<size_t>(row) + 1];
      const auto list = options_.lists.find(type.name);
      if (list != options_.lists.end()) {
        field = &list->second;
        if (array->IsNull(row)) end = begin;
        COHORT_ASSIGN_OR_RETURN(const size_t used, field->UsedOf(static_cast<size_t>(end - begin)));
        end = begin + static_cast<int64_t>(used);
      } else if (array->IsNull(row) || end - begin != NumElements(type.dims)) {
        return DataLoss("has {} words, the first row has {}: `lists` would pad or cut it",
                        end - begin, NumElements(type.dims));
      }
      array = lists.values.get();
    }
    for (int64_t i = begin; i < end; ++i) {
      const arrow::Array* words = array;
      int64_t at = i;
      if (words->IsNull(i)) {
        if (!options_.missing_word) return DataLoss("is null: `missing_word` would stand for it");
        add(*options_.missing_word);
        continue;
      }
      if (words->type_id() == Type::DICTIONARY) {
        const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*words);
        at = dictionary.GetValueIndex(i);
        words = dictionary.dictionary().get();
      }
      add(words->type_id() == Type::STRING
              ? static_cast<const arrow::StringArray&>(*words).GetView(at)
              : static_cast<const arrow::LargeStringArray&>(*words).GetView(at));
    }
    if (field == nullptr) return absl::OkStatus();
    for (int64_t i = end - begin; i < type.dims[0]; ++i) add(*field->word_padding);
    return absl::OkStatus();
  }

  absl::StatusOr<GroupCache::Group> Decode(const ParquetFile& file, size_t number) const {
    auto group = std::make_shared<DecodedGroup>();
    std::vector<std::string> names;
    for (const ParquetColumn& column : numbers_) names.push_back(column.name);
    COHORT_ASSIGN_OR_RETURN(const auto table, file.ReadGroup(number, names));
    for (const ParquetColumn& column : numbers_) {
      std::vector<uint8_t>& out = group->columns.emplace_back();
      out.reserve(file.RowsOf(number) * column.type.bytes());
      NumberWriter writer(column, &out);
      // It matters to a batch that reads the column alone.
      absl::Status& error = group->errors.emplace_back();
      for (const auto& chunk : table->GetColumnByName(column.name)->chunks()) {
        const absl::Status written = WriteChunk(column, *chunk, &writer);
        if (written.ok()) continue;
        const uint64_t row = file.FirstOf(number) + out.size() / column.type.bytes();
        error = Annotate(written, fmt::format("{}: column \"{}\"", PlaceOf(file, row),
                                              PrintableLine(column.name)));
        break;
      }
      group->bytes += out.size();
    }
    return group;
  }

  static absl::Status WriteChunk(const ParquetColumn& column, const arrow::Array& chunk,
                                 NumberWriter* writer) {
    if (column.type.dims.empty()) return writer->Write(chunk, 0, chunk.length());
    const ListSlice lists = ListsOf(chunk);
    for (size_t i = 0; i + 1 < lists.offsets.size(); ++i) {
      const bool is_null = chunk.IsNull(static_cast<int64_t>(i));
      int64_t length = is_null ? 0 : lists.offsets[i + 1] - lists.offsets[i];
      if (column.list != nullptr) {
        COHORT_ASSIGN_OR_RETURN(const size_t used,
                                column.list->UsedOf(static_cast<size_t>(length)));
        length = static_cast<int64_t>(used);
      } else if (is_null || length != column.type.dims[0]) {
        return DataLoss("has {} numbers, the first row has {}: `lists` would pad or cut it", length,
                        column.type.dims[0]);
      }
      COHORT_RETURN_IF_ERROR(
          writer->Write(*lists.values, lists.offsets[i], lists.offsets[i] + length));
      if (column.list != nullptr) {
        writer->Fill(*column.list->padding, static_cast<size_t>(column.type.dims[0] - length));
      }
    }
    return absl::OkStatus();
  }

  const FileSequence<ParquetFile> files_;
  const ParquetOptions options_;
  // Constant after FindColumns.
  std::vector<FeatureType> columns_;
  std::vector<ParquetColumn> numbers_;  // by column
  std::vector<FeatureType> word_columns_;
  std::map<std::string, std::shared_ptr<arrow::DataType>> types_;
  std::map<std::string, std::string> no_features_;

  mutable GroupCache cache_;

  // The row group whose words were read last.
  mutable Mutex words_mu_;
  mutable const ParquetFile* words_file_ ABSL_GUARDED_BY(words_mu_) = nullptr;
  mutable size_t words_group_ ABSL_GUARDED_BY(words_mu_) = 0;
  mutable std::vector<size_t> words_columns_ ABSL_GUARDED_BY(words_mu_);
  mutable std::shared_ptr<arrow::Table> words_table_ ABSL_GUARDED_BY(words_mu_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenParquetFiles(
    const std::vector<InputFile>& inputs, const ParquetOptions& parquet,
    const DataOptions& options) {
  FileSequence<ParquetFile> files;
  for (const InputFile& input : inputs) {
    COHORT_ASSIGN_OR_RETURN(ParquetFile file, ParquetFile::Open(input, options));
    COHORT_RETURN_IF_ERROR(files.Add(std::move(file)));
  }
  if (files.records() == 0) return NoRecords(inputs);
  auto source = std::make_shared<ParquetRecords>(std::move(files), parquet);
  COHORT_RETURN_IF_ERROR(source->FindColumns());
  return source;
}

}  // namespace cohort
