// Equals: 1 if a word or number equals a value, else 0.
#include <cstring>
#include <optional>
#include <type_traits>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// The value with which numbers are compared.
struct Wanted {
  double number = 0;
  std::optional<int64_t> integer;  // if it is one: then integers are compared exactly

  template <typename T>
  bool Equals(T value) const {
    if constexpr (std::is_integral_v<T>) {
      if (integer) return static_cast<int64_t>(value) == *integer;
      return static_cast<double>(value) == number;
    } else {
      return value == static_cast<T>(number);
    }
  }
};

std::optional<Wanted> WantedNumber(const std::string& text) {
  Wanted wanted;
  if (!ParseNumber(text, &wanted.number)) return std::nullopt;
  int64_t integer = 0;
  if (ParseInteger(text, &integer)) wanted.integer = integer;
  return wanted;
}

absl::StatusOr<RecordTransform> OpenEquals(const Config& config,
                                           std::span<const FeatureType> inputs) {
  const std::optional<Wanted> wanted = WantedNumber(config.String("value"));
  if (!wanted) {
    return InvalidArgument("equals: column \"{}\" holds numbers, \"{}\" is not one", inputs[0].name,
                           config.String("value"));
  }
  return RecordTransform{
      DType::kFloat32, inputs[0].dims,
      [from = inputs[0].dtype, wanted = *wanted](const RecordContext&,
                                                 std::span<const std::span<const std::byte>> values,
                                                 std::span<std::byte> output) {
        WithType(from, [&](auto number) {
          for (size_t i = 0; i < output.size() / sizeof(float); ++i) {
            std::memcpy(&number, values[0].data() + i * sizeof(number), sizeof(number));
            const float equal = wanted.Equals(number) ? 1 : 0;
            std::memcpy(output.data() + i * sizeof(equal), &equal, sizeof(equal));
          }
        });
        return absl::OkStatus();
      }};
}

// A column whose words are all numbers is compared with a number as pandas does it: 01 equals 1.
absl::StatusOr<std::vector<double>> EqualWords(const Config& config,
                                               std::span<const std::string> words) {
  const std::string& value = config.String("value");
  const std::optional<Wanted> wanted = WantedNumber(value);
  std::vector<double> same_word, same_number;
  for (const std::string& word : words) {
    same_word.push_back(word == value ? 1 : 0);
    int64_t integer = 0;
    double number = 0;
    if (!wanted || same_number.size() + 1 != same_word.size()) continue;
    if (ParseInteger(word, &integer)) {
      same_number.push_back(wanted->Equals(integer) ? 1 : 0);
    } else if (ParseNumber(word, &number)) {
      same_number.push_back(wanted->Equals(number) ? 1 : 0);
    }
  }
  return same_number.size() == words.size() ? same_number : same_word;
}

}  // namespace

TransformClass EqualsTransform() {
  return {.schema = {.name = "Equals",
                     .doc = "1 if the word or number equals a value, else 0; float32. A column of "
                            "which every word is a number is compared as numbers, integers "
                            "exactly; other words are compared byte by byte.",
                     .arguments = {String("value", "The word, or the text of the number.")}},
          .open = OpenEquals,
          .elementwise = true,
          .keeps_integers = true,
          .marks_records = true,
          .map_words = EqualWords};
}

}  // namespace cohort
