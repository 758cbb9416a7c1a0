#ifndef COHORT_COMMON_DATA_WORD_CODES_H_
#define COHORT_COMMON_DATA_WORD_CODES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/data/table.h"

namespace cohort {

// Collects the words of a column as codes of distinct words.
class WordCodes {
 public:
  void Add(std::string_view word) {
    const auto [found, added] = code_of_.try_emplace(std::string(word), words_.size());
    if (added) words_.push_back(found->first);
    codes_.push_back(found->second);
  }
  size_t size() const { return codes_.size(); }
  // Returns the column without name and dims. Called once, at the end.
  Column Finish() {
    Column column;
    column.codes = std::make_shared<const std::vector<uint32_t>>(std::move(codes_));
    column.words = std::make_shared<const std::vector<std::string>>(std::move(words_));
    return column;
  }

 private:
  std::unordered_map<std::string, uint32_t> code_of_;
  std::vector<std::string> words_;
  std::vector<uint32_t> codes_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_WORD_CODES_H_
