#ifndef COHORT_COMMON_DATA_LOOKUP_H_
#define COHORT_COMMON_DATA_LOOKUP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

// Keras' StringLookup (keras.layers.StringLookup, output_mode "int", mask_token None,
// num_oov_indices 1): id 0 is everything that the vocabulary lacks, its words follow from 1.
inline constexpr char kOovToken[] = "[UNK]";

// The vocabulary that `adapt` learns: distinct words by falling frequency; of equally frequent ones
// the greater (byte by byte) comes first, as numpy's reversed lexsort puts them. kOovToken is never
// in it. `codes` index `words`; words that occur in no code are left out.
std::vector<std::string> AdaptVocabulary(std::span<const uint32_t> codes,
                                         std::span<const std::string> words);

// The id of each of `words`. A vocabulary may start with kOovToken, as Keras' get_vocabulary()
// does. Errors: InvalidArgument (a word twice in the vocabulary, kOovToken elsewhere in it, none at
// all).
absl::StatusOr<std::vector<int64_t>> LookupIds(std::span<const std::string> words,
                                               std::span<const std::string> vocabulary);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_LOOKUP_H_
