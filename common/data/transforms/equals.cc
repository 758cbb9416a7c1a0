// Equals: 1 if a word or number equals a value, else 0.
#include <cstring>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenEquals(const Config& config,
                                           std::span<const FeatureType> inputs) {
  double wanted = 0;
  if (!ParseNumber(config.String("value"), &wanted)) {
    return InvalidArgument("equals: column \"{}\" holds numbers, \"{}\" is not one", inputs[0].name,
                           config.String("value"));
  }
  return RecordTransform{
      DType::kFloat32, inputs[0].dims,
      [from = inputs[0].dtype, wanted](const RecordContext&,
                                       std::span<const std::span<const std::byte>> values,
                                       std::span<std::byte> output) {
        for (size_t i = 0; i < output.size() / sizeof(float); ++i) {
          double number = 0;
          ConvertNumbers(from, values[0].data() + i * SizeOf(from), DType::kFloat64, &number, 1);
          const float equal = number == wanted ? 1 : 0;
          std::memcpy(output.data() + i * sizeof(equal), &equal, sizeof(equal));
        }
        return absl::OkStatus();
      }};
}

absl::StatusOr<std::vector<double>> EqualWords(const Config& config,
                                               std::span<const std::string> words) {
  std::vector<double> equal;
  for (const std::string& word : words) equal.push_back(word == config.String("value") ? 1 : 0);
  return equal;
}

}  // namespace

TransformClass EqualsTransform() {
  return {.schema = {.name = "Equals",
                     .doc = "1 if the word or number equals a value, else 0; float32.",
                     .arguments = {String("value", "The word, or the text of the number.")}},
          .open = OpenEquals,
          .elementwise = true,
          .map_words = EqualWords};
}

}  // namespace cohort
