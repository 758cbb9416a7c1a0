#ifndef COHORT_COMMON_DATA_LOOKUP_H_
#define COHORT_COMMON_DATA_LOOKUP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

// Keras' StringLookup (keras.layers.StringLookup, output_mode "int", mask_token None,
// num_oov_indices 1): id 0 stands for all words outside the vocabulary, whose words follow from 1.
inline constexpr char kOovToken[] = "[UNK]";

// Returns the vocabulary that `adapt` learns: distinct words by falling frequency. Among equally
// frequent words the greater one (byte by byte) comes first, as numpy's reversed lexsort orders
// them. kOovToken is never in it. `codes` index `words`; words without a code are left out.
std::vector<std::string> AdaptVocabulary(std::span<const uint32_t> codes,
                                         std::span<const std::string> words);

// Returns the id of each of `words`. A vocabulary may start with kOovToken, as that of Keras'
// get_vocabulary() does. Errors: InvalidArgument (a repeated word, kOovToken in another position,
// an empty vocabulary).
absl::StatusOr<std::vector<int64_t>> LookupIds(std::span<const std::string> words,
                                               std::span<const std::string> vocabulary);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_LOOKUP_H_
