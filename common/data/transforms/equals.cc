// Equals: 1 if a word or number equals a value, else 0.
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/numbers.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<double> WantedNumber(const Config& config, const std::string& column) {
  double wanted = 0;
  if (ParseNumber(config.String("value"), &wanted)) return wanted;
  return InvalidArgument("equals: column \"{}\" holds numbers, \"{}\" is not one", column,
                         config.String("value"));
}

absl::StatusOr<RecordTransform> OpenEquals(const Config& config,
                                           std::span<const FeatureType> inputs) {
  const DType from = inputs[0].dtype;
  const auto count = static_cast<size_t>(NumElements(inputs[0].dims));
  COHORT_ASSIGN_OR_RETURN(const double wanted, WantedNumber(config, inputs[0].name));
  return RecordTransform{DType::kFloat32, inputs[0].dims,
                         [from, count, wanted](const RecordContext&,
                                               std::span<const std::span<const std::byte>> values,
                                               std::span<std::byte> output) {
                           for (size_t i = 0; i < count; ++i) {
                             const float equal =
                                 NumberAt(from, values[0].data(), i) == wanted ? 1 : 0;
                             std::memcpy(output.data() + i * sizeof(equal), &equal, sizeof(equal));
                           }
                           return absl::OkStatus();
                         }};
}

absl::StatusOr<Column> EqualsColumn(const Config& config, uint64_t records,
                                    std::span<const Column> inputs) {
  const Column& input = inputs[0];
  std::vector<uint8_t> values(records * static_cast<uint64_t>(input.elements()));
  if (input.is_text()) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = (*input.words)[(*input.codes)[i]] == config.String("value") ? 1 : 0;
    }
  } else {
    COHORT_ASSIGN_OR_RETURN(const double wanted, WantedNumber(config, input.name));
    for (size_t i = 0; i < values.size(); ++i) values[i] = NumberAt(input, i) == wanted ? 1 : 0;
  }
  return ColumnOf(values, DType::kUint8, DType::kFloat32, input.dims);
}

}  // namespace

TransformClass EqualsTransform() {
  return {.schema = {.name = "Equals",
                     .doc = "1 if the word or number equals a value, else 0; float32.",
                     .arguments = {String("value", "The word, or the text of the number.")}},
          .open = OpenEquals,
          .transform_columns = EqualsColumn,
          .reads_words = true};
}

}  // namespace cohort
