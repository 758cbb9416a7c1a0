#ifndef COHORT_COMMON_DATA_WORD_CODES_H_
#define COHORT_COMMON_DATA_WORD_CODES_H_

#include <absl/container/flat_hash_set.h>
#include <absl/hash/hash.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/data/table.h"

namespace cohort {

// Collects the words of a column: each distinct one once, and the number of each.
class WordCodes {
 public:
  void Add(std::string_view word) {
    const auto found = codes_of_.find(word);
    if (found != codes_of_.end()) return codes_.push_back(*found);
    const auto code = static_cast<uint32_t>(words_->size());
    words_->emplace_back(word);
    codes_of_.insert(code);
    codes_.push_back(code);
  }

  size_t size() const { return codes_.size(); }

  // Returns them as a column without a name. Nothing is left.
  Column Finish() {
    codes_of_.clear();
    Column column;
    column.codes = std::make_shared<const TableVector<uint32_t>>(std::move(codes_));
    column.words = std::make_shared<const std::vector<std::string>>(std::move(*words_));
    return column;
  }

 private:
  using Words = std::vector<std::string>;
  // Codes are found by their words, which are nowhere else.
  struct Hash {
    using is_transparent = void;
    const Words* words;
    size_t operator()(std::string_view word) const { return absl::HashOf(word); }
    size_t operator()(uint32_t code) const { return (*this)(std::string_view((*words)[code])); }
  };
  struct Equal {
    using is_transparent = void;
    const Words* words;
    std::string_view Of(std::string_view word) const { return word; }
    std::string_view Of(uint32_t code) const { return (*words)[code]; }
    template <typename A, typename B>
    bool operator()(A a, B b) const {
      return Of(a) == Of(b);
    }
  };

  std::unique_ptr<Words> words_ = std::make_unique<Words>();
  absl::flat_hash_set<uint32_t, Hash, Equal> codes_of_{0, Hash{words_.get()}, Equal{words_.get()}};
  TableVector<uint32_t> codes_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_WORD_CODES_H_
