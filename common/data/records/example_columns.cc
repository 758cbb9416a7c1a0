#include "common/data/records/example_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/records/tf_example.h"

namespace cohort {
namespace {

struct FeatureKind {
  ClassSchema schema;
};

constexpr std::string_view kImage = "image";

// Errors: DataLoss if an integer column cannot hold all of the numbers: one has a fraction, or is
// too large.
template <typename Values>
absl::Status CheckRange(const FeatureType& column, const Values& values) {
  absl::Status status;
  WithType(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const auto bad = std::find_if_not(values.begin(), values.end(), [](auto value) {
        if constexpr (std::is_integral_v<decltype(value)>) return std::in_range<T>(value);
        const auto number = static_cast<double>(value);  // 2^63 is the least that int64 lacks
        return number == std::trunc(number) &&
               number >= static_cast<double>(std::numeric_limits<T>::min()) &&
               number < static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
      });
      if (bad == values.end()) return;
      status = DataLoss("has {}, which a column of {} cannot hold: give it another dtype", *bad,
                        DTypeName(column.dtype));
    }
  });
  return status;
}

// A string of bytes is the memory of a uint8 tensor.
absl::Status CopyBytes(const RecordField& field, const std::vector<std::string_view>& list,
                       std::span<std::byte> out) {
  if (field.type.dtype != DType::kUint8 || list.size() != 1) {
    return DataLoss(
        "is text: an encoded image is read by `image: {{}}`, words by `words: {{}}`, bytes by "
        "dtype "
        "uint8");
  }
  return field.WriteNumbers(DType::kUint8, list[0].data(), list[0].size(), out);
}

// `out` may be empty: then the numbers are only checked.
absl::Status DecodeNumbers(const RecordField& field, const TfFeatureValues& values,
                           std::span<std::byte> out) {
  const auto& [kind, bytes, floats, integers] = values;
  switch (kind) {
    case TfListKind::kFloats:
      COHORT_RETURN_IF_ERROR(CheckRange(field.type, floats));
      return field.WriteNumbers(DType::kFloat32, floats.data(), floats.size(), out);
    case TfListKind::kIntegers:
      COHORT_RETURN_IF_ERROR(CheckRange(field.type, integers));
      return field.WriteNumbers(DType::kInt64, integers.data(), integers.size(), out);
    case TfListKind::kBytes:
      return CopyBytes(field, bytes, out);
    case TfListKind::kNone:
      break;
  }
  return field.WriteMissing(out);
}

// Calls `add` for each word of a record. Errors: DataLoss for numbers with fractions.
absl::Status DecodeWords(const RecordField& field, const TfFeatureValues& values,
                         absl::FunctionRef<void(std::string_view word)> add) {
  std::vector<std::string> numbers;  // as words
  std::vector<std::string_view> words;
  if (values.kind == TfListKind::kIntegers) {
    for (const int64_t number : values.integers) numbers.push_back(fmt::format("{}", number));
    words.assign(numbers.begin(), numbers.end());
  } else if (values.kind == TfListKind::kBytes) {
    words = values.bytes;
  } else if (!values.floats.empty()) {  // an empty list has any kind
    return DataLoss("has floating point numbers; words are text or integers");
  } else if (field.missing_word) {
    words.assign(field.elements(), *field.missing_word);
  }
  COHORT_ASSIGN_OR_RETURN(const size_t used, field.UsedOf(words.size()));
  for (size_t i = 0; i < used; ++i) add(words[i]);
  for (size_t i = used; i < field.elements(); ++i) add(*field.word_padding);
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> EncodedImage(const TfFeatureValues& values) {
  if (values.bytes.size() == 1) return values.bytes[0];
  return DataLoss("has {} strings of bytes; an image is one", values.bytes.size());
}

absl::Status NoFeature(const std::string& name, std::string_view record) {
  std::set<std::string_view> names;
  VisitTfExample(record, [&](std::string_view entry, std::string_view) { names.insert(entry); });
  return DataLoss("has no feature \"{}\"; it has {}", name,
                  PrintableLine(fmt::format("{}", fmt::join(names, ", "))));
}

// Where the features of a record are. A thread reuses it.
struct FoundFeatures {
  std::vector<std::optional<std::string_view>> entries;  // by field
  TfFeatureValues values;                                // the field in hand
};

// Calls `use(i, values)` for each field that `wanted(i)`. `fields` are in the order of their names.
template <typename Wanted, typename Use>
absl::Status WithFeatures(std::string_view record, const std::vector<RecordField>& fields,
                          const Wanted& wanted, const Use& use) {
  thread_local FoundFeatures found;
  found.entries.assign(fields.size(), std::nullopt);
  const auto add = [&](std::string_view name, std::string_view entry) {
    const auto field = std::lower_bound(fields.begin(), fields.end(), name,
                                        [](const RecordField& f, std::string_view wanted_name) {
                                          return f.type.name.compare(wanted_name) < 0;
                                        });
    if (field == fields.end() || field->type.name != name) return;
    found.entries[static_cast<size_t>(field - fields.begin())] = entry;
  };
  if (!VisitTfExample(record, add)) return DataLoss("is not a tf.Example");
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!wanted(i)) continue;
    const std::string& name = fields[i].type.name;
    if (!found.entries[i] && !fields[i].may_be_missing()) return NoFeature(name, record);
    ReadTfFeature(found.entries[i].value_or(std::string_view()), &found.values);
    const absl::Status used = use(i, found.values);
    if (!used.ok()) return Annotate(used, fmt::format("feature \"{}\"", PrintableLine(name)));
  }
  return absl::OkStatus();
}

}  // namespace

const SchemaSet& FeatureKinds() {
  static const auto& kinds =
      *new ClassRegistry<FeatureKind>("feature kind", SchemaSet::Spelling::kAnyCase, "",
                                      {{.schema = {.name = std::string(kImage),
                                                   .doc = "An encoded JPEG or PNG.",
                                                   .arguments = ImageColumn::Arguments({})}},
                                       {.schema = TensorFieldSchema({})},
                                       {.schema = WordsFieldSchema({})}});
  return kinds;
}

absl::StatusOr<ExampleColumns> ExampleColumns::Create(
    const std::map<std::string, v1::ClassConfig>& features) {
  if (features.empty()) return InvalidArgument("`features` names no feature");
  ExampleColumns made;
  for (const auto& [name, config] : features) {
    if (config.class_name() == kImage) {
      const Config arguments(config);
      COHORT_RETURN_IF_ERROR(Annotate(ImageColumn::Check(arguments), name));
      const ImageColumn& image = *made.images_.emplace_back(arguments);
      made.columns_.push_back({name, DType::kFloat32, image.dims()});
      made.fields_.push_back({.type = made.columns_.back()});
      continue;
    }
    COHORT_ASSIGN_OR_RETURN(RecordField field, MakeRecordField(name, config));
    if (field.is_words()) {
      made.word_columns_.push_back(field.type);
      made.word_fields_.push_back(std::move(field));
      continue;
    }
    made.images_.emplace_back();
    made.columns_.push_back(field.type);
    made.fields_.push_back(std::move(field));
  }
  return made;
}

absl::Status ExampleColumns::Decode(std::string_view record,
                                    std::span<const std::span<std::byte>> values) const {
  return WithFeatures(
      record, fields_, [&](size_t i) { return !values[i].empty(); },
      [&](size_t i, const TfFeatureValues& feature) -> absl::Status {
        if (!images_[i]) return DecodeNumbers(fields_[i], feature, values[i]);
        COHORT_ASSIGN_OR_RETURN(const std::string_view image, EncodedImage(feature));
        return images_[i]->Decode(image, values[i]);
      });
}

absl::Status ExampleColumns::DecodeWordsOf(std::string_view record, std::span<const size_t> columns,
                                           RecordSource::AddWord add) const {
  const auto place = [&](size_t field) {
    return std::find(columns.begin(), columns.end(), field) - columns.begin();
  };
  return WithFeatures(
      record, word_fields_,
      [&](size_t i) { return place(i) < static_cast<ptrdiff_t>(columns.size()); },
      [&](size_t i, const TfFeatureValues& feature) {
        const auto at = static_cast<size_t>(place(i));
        return DecodeWords(word_fields_[i], feature, [&](std::string_view word) { add(at, word); });
      });
}

absl::Status ExampleColumns::Check(std::string_view record) const {
  const auto all = [](size_t) { return true; };
  COHORT_RETURN_IF_ERROR(
      WithFeatures(record, word_fields_, all, [&](size_t i, const TfFeatureValues& feature) {
        return DecodeWords(word_fields_[i], feature, [](std::string_view) {});
      }));
  return WithFeatures(
      record, fields_, all, [&](size_t i, const TfFeatureValues& feature) -> absl::Status {
        if (!images_[i]) return DecodeNumbers(fields_[i], feature, {});
        COHORT_ASSIGN_OR_RETURN(const std::string_view image, EncodedImage(feature));
        return images_[i]->CheckImage(image);
      });
}

}  // namespace cohort
