#ifndef COHORT_COMMON_MODEL_JOB_TEST_TEXT_H_
#define COHORT_COMMON_MODEL_JOB_TEST_TEXT_H_

#include <stdexcept>
#include <string>
#include <string_view>

namespace cohort {

// A valid job; tests of errors change it in one place.
inline constexpr std::string_view kJobText = R"(name: demo
model:
  sequential:
    - Input: {shape: [4]}
    - Dense: {units: 8, activation: relu}
    - Dropout: {rate: 0.5}
    - Dense: {units: 1, activation: sigmoid}
compile:
  loss: binary_crossentropy
  optimizer: {Adam: {learning_rate: 0.01}}
  metrics: [accuracy]
data:
  batch_size: 16
  train:
    csv: {path: a.csv}
    transforms:
      - {column: x, dtype: float32}
    label: y
  validation: {skip: 100}
fit: {epochs: 2}
strategy:
  placement: balanced
  partitioner: {FixedShards: {num_shards: 2}}
checkpoint: {directory: c}
)";

// Returns the job with the first `from` replaced. Throws if there is none, because the test would
// test nothing.
inline std::string With(std::string_view from, std::string_view to) {
  std::string text(kJobText);
  const size_t at = text.find(from);
  if (at == std::string::npos)
    throw std::logic_error("no \"" + std::string(from) + "\" in the job");
  return text.replace(at, from.size(), to);
}

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_TEST_TEXT_H_
