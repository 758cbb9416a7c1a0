#ifndef COHORT_COMMON_DATA_RECORDS_TF_EXAMPLE_H_
#define COHORT_COMMON_DATA_RECORDS_TF_EXAMPLE_H_

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace cohort {

enum class TfListKind { kNone, kBytes, kFloats, kIntegers };

// The values of a feature of a tf.Example: a list of one kind.
struct TfFeatureValues {
  // Removes the values and keeps the memory, unless it is large.
  void Clear();
  // Makes a list of `other` empty; one of the same kind stays.
  void SetKind(TfListKind other);

  TfListKind kind = TfListKind::kNone;
  std::vector<std::string_view> bytes;  // parts of the example
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

// Reads a tf.Example (proto/tf_example.proto) where it lies, with no memory of its own. Calls
// `visit` for each entry of its map of features, in their order; of entries with the same name the
// last one counts. Returns false if protobuf refuses the message. It accepts what protobuf accepts:
// lists that are packed, not packed or in several parts, and fields that it does not know.
bool VisitTfExample(std::string_view example,
                    absl::FunctionRef<void(std::string_view name, std::string_view entry)> visit);

// Reads the values of an entry from VisitTfExample.
void ReadTfFeature(std::string_view entry, TfFeatureValues* values);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_TF_EXAMPLE_H_
