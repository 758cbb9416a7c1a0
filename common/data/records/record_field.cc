#include "common/data/records/record_field.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

constexpr std::string_view kWords = "words";

std::vector<Argument> FieldArguments(std::vector<Argument> own, std::vector<Argument> more) {
  own.push_back(Ints("shape", "Of a record; []: one.").Default(std::vector<int64_t>{}).AtLeast(1));
  own.push_back(
      Bool("truncate", "True: a longer list is cut at the end of the shape.").Default(false));
  for (Argument& argument : more) own.push_back(std::move(argument));
  return own;
}

void FillNumbers(const FeatureType& type, double value, size_t from, std::span<std::byte> out) {
  const size_t size = SizeOf(type.dtype);
  for (size_t at = from * size; at < out.size(); at += size) {
    ConvertNumbers(DType::kFloat64, &value, type.dtype, out.data() + at, 1);
  }
}

}  // namespace

absl::Status CheckFill(const FeatureType& type, std::string_view argument, double value) {
  bool fits = true;
  WithType(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      // Both limits are exact: the greatest int64 is that of no double.
      fits = value == std::trunc(value) &&
             value >= static_cast<double>(std::numeric_limits<T>::min()) &&
             value < std::ldexp(1.0, std::numeric_limits<T>::digits);
    }
  });
  if (fits) return absl::OkStatus();
  return InvalidArgument("`{}: {}` is no value of {}, the dtype of the column", argument, value,
                         DTypeName(type.dtype));
}

absl::StatusOr<size_t> RecordField::UsedOf(size_t count) const {
  if (count == elements()) return count;
  const bool shorter = count < elements();
  if (shorter && (padding || word_padding)) return count;
  if (!shorter && truncate) return elements();
  const char* hint = type.dims.empty() ? ""
                     : shorter         ? ": `pad_with` would fill it"
                                       : ": `truncate` would cut it";
  return DataLoss("has {} {}, and the shape {} needs {}{}", count, is_words() ? "words" : "numbers",
                  DimsToString(type.dims), elements(), hint);
}

absl::Status RecordField::WriteNumbers(DType stored, const void* numbers, size_t count,
                                       std::span<std::byte> out) const {
  COHORT_ASSIGN_OR_RETURN(const size_t used, UsedOf(count));
  if (out.empty()) return absl::OkStatus();
  ConvertNumbers(stored, numbers, type.dtype, out.data(), used);
  if (used < elements()) FillNumbers(type, *padding, used, out);
  return absl::OkStatus();
}

absl::Status RecordField::WriteMissing(std::span<std::byte> out) const {
  if (!missing && !padding) return UsedOf(0).status();
  FillNumbers(type, missing ? *missing : *padding, 0, out);
  return absl::OkStatus();
}

ClassSchema TensorFieldSchema(std::vector<Argument> more) {
  return {
      .name = "tensor",
      .doc = "Numbers.",
      .arguments = FieldArguments(
          {String("dtype", "The type of the column.")
               .Default("float32")
               .OneOf({"float32", "float64", "int32", "int64", "uint8", "bool"}),
           Float("missing", "Stands for a record that lacks the field; none: an error.").Optional(),
           Float("pad_with", "Fills a shorter list up to the shape; none: it is an error.")
               .Optional()},
          std::move(more))};
}

ClassSchema WordsFieldSchema(std::vector<Argument> more) {
  return {.name = std::string(kWords),
          .doc = "Words, which a transform such as StringLookup reads.",
          .arguments = FieldArguments(
              {String("missing", "Stands for a record that lacks the field; none: an error.")
                   .Optional(),
               String("pad_with", "Fills a shorter list up to the shape; none: it is an error.")
                   .Optional()},
              std::move(more))};
}

std::vector<ClassSchema> ListSchemas(std::vector<Argument> more) {
  const auto schema = [&](std::string_view name, std::string_view doc, Argument padding) {
    ClassSchema made = {.name = std::string(name), .doc = std::string(doc)};
    made.arguments = {
        Int("length", "Elements in a record.").AtLeast(1), std::move(padding),
        Bool("truncate", "True: a longer list is cut at the end; else it is an error.")
            .Default(false)};
    made.arguments.insert(made.arguments.end(), more.begin(), more.end());
    return made;
  };
  return {schema("numbers", "Lists of numbers.",
                 Float("pad_with", "Fills a shorter list up to the length.").Default(0.0)),
          schema(kWords, "Lists of words.",
                 String("pad_with", "Fills a shorter list up to the length.").Default(""))};
}

absl::StatusOr<RecordField> MakeListField(const std::string& name, const v1::ClassConfig& config) {
  const Config arguments(config);
  RecordField field;
  field.type = {name, DType::kInvalid, {arguments.Int("length")}};
  field.truncate = arguments.Bool("truncate");
  COHORT_RETURN_IF_ERROR(Annotate(CheckColumnType(DType::kFloat64, field.type.dims), name));
  if (config.class_name() == kWords) {
    field.word_padding = arguments.String("pad_with");
  } else {
    field.type.dtype = DType::kFloat64;
    field.padding = arguments.Float("pad_with");
  }
  return field;
}

absl::StatusOr<RecordField> MakeRecordField(const std::string& name,
                                            const v1::ClassConfig& config) {
  const Config arguments(config);
  RecordField field;
  field.type = {name, DType::kInvalid, arguments.Ints("shape")};
  field.truncate = arguments.Bool("truncate");
  const bool missing = !arguments.IsNone("missing"), padding = !arguments.IsNone("pad_with");
  if (config.class_name() == kWords) {
    COHORT_RETURN_IF_ERROR(Annotate(CheckColumnType(DType::kUint8, field.type.dims), name));
    if (missing) field.missing_word = arguments.String("missing");
    if (padding) field.word_padding = arguments.String("pad_with");
    return field;
  }
  field.type.dtype = *DTypeFromName(arguments.String("dtype"));
  if (missing) field.missing = arguments.Float("missing");
  if (padding) field.padding = arguments.Float("pad_with");
  absl::Status status = CheckColumnType(field.type.dtype, field.type.dims);
  if (field.missing) status.Update(CheckFill(field.type, "missing", *field.missing));
  if (field.padding) status.Update(CheckFill(field.type, "pad_with", *field.padding));
  if (!status.ok()) return Annotate(status, name);
  return field;
}

}  // namespace cohort
