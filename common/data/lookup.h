#ifndef COHORT_COMMON_DATA_LOOKUP_H_
#define COHORT_COMMON_DATA_LOOKUP_H_

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/data/category.h"

namespace cohort {

inline constexpr char kOovToken[] = "[UNK]";

// How often words occur, and in how many records. A text that several records have is counted once
// with all of them.
class WordCounts {
 public:
  // There are words 0 to `words` - 1 from now on.
  void Resize(size_t words);
  // Counts a word of the current text, which `times` records have.
  void Add(uint32_t word, uint64_t times);
  // Ends the text, which `records` records have.
  void EndRecords(uint64_t records);

  std::span<const uint64_t> counts() const { return counts_; }
  std::span<const uint64_t> records_with() const { return with_; }
  uint64_t records() const { return records_; }

 private:
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> with_;
  std::vector<uint64_t> last_;  // the last text that has a word
  uint64_t texts_ = 0;
  uint64_t records_ = 0;
};

// Hashes a word to one of `buckets`, as tf.strings.to_hash_bucket_fast, or _strong with a key.
using HashKey = std::optional<std::array<uint64_t, 2>>;
int64_t HashBucket(std::string_view word, int64_t buckets, const HashKey& key);
// The argument `salt`: none, an integer or two. Errors: InvalidArgument.
Argument SaltArgument();
absl::StatusOr<HashKey> KeyOfSalt(const Config& config);

// Numbers of words (keras/src/layers/preprocessing/index_lookup.py): that of the mask, if there is
// one and output_mode is int, those of words that are not in the vocabulary, and the words of the
// vocabulary. Integers are words, too: their decimal text.
class Lookup {
 public:
  // The arguments of StringLookup and IntegerLookup without `vocabulary`, `mask_token` and
  // `oov_token`, which differ.
  static std::vector<Argument> Arguments();

  struct Options {
    std::vector<std::string> vocabulary;
    std::optional<std::string> mask;
    std::string oov;
    bool integers = false;
  };
  // Errors: InvalidArgument for a repeated word, for special words in other places than the first,
  // for an empty vocabulary, and for arguments that do not suit each other.
  static absl::StatusOr<Lookup> Create(const Config& config, Options options);
  // Learns the vocabulary, distinct words by falling frequency, and the weights of tf_idf. Among
  // equally frequent words the greater one (byte by byte, or the greater integer) comes first, as
  // numpy's reversed lexsort orders them. The mask and the token of unknown words are never in it.
  // `codes` index `words`; words without a code are left out. `config` has the other arguments.
  static absl::Status Adapt(const Options& options, std::span<const uint32_t> codes,
                            std::span<const std::string> words, size_t per_record,
                            v1::ClassConfig* config);
  // The same from counts of `words`.
  static absl::Status AdaptToCounts(const Options& options, std::span<const std::string> words,
                                    const WordCounts& counts, v1::ClassConfig* config);

  // The number of a word; -1 for the mask if output_mode is not int. Errors: InvalidArgument for
  // an unknown word if num_oov_indices is 0.
  absl::StatusOr<int64_t> Find(std::string_view word) const;
  // Those of many words.
  absl::StatusOr<std::vector<double>> FindAll(std::span<const std::string> words) const;
  const CategoryOutput& output() const { return output_; }

 private:
  Options options_;
  std::unordered_map<std::string, int64_t> numbers_;
  int64_t oov_indices_ = 1;
  int64_t first_oov_ = 0;
  bool by_remainder_ = false;  // unknown integers: modulo num_oov_indices
  HashKey key_;
  CategoryOutput output_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_LOOKUP_H_
