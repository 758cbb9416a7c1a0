#include "common/data/lookup.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/status.h"

namespace cohort {

std::vector<std::string> AdaptVocabulary(std::span<const uint32_t> codes,
                                         std::span<const std::string> words) {
  std::vector<uint64_t> counts(words.size());
  for (const uint32_t code : codes) ++counts[code];
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < words.size(); ++i) {
    if (counts[i] > 0 && words[i] != kOovToken) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : words[a] > words[b];
  });
  std::vector<std::string> vocabulary;
  vocabulary.reserve(order.size());
  for (const uint32_t i : order) vocabulary.push_back(words[i]);
  return vocabulary;
}

absl::StatusOr<std::vector<int64_t>> LookupIds(std::span<const std::string> words,
                                               std::span<const std::string> vocabulary) {
  if (!vocabulary.empty() && vocabulary[0] == kOovToken) vocabulary = vocabulary.subspan(1);
  if (vocabulary.empty()) return InvalidArgument("the vocabulary is empty");
  std::unordered_map<std::string_view, int64_t> ids;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary[i] == kOovToken) {
      return InvalidArgument("\"{}\" stands for unknown words and may only be the first",
                             kOovToken);
    }
    if (!ids.emplace(vocabulary[i], static_cast<int64_t>(i) + 1).second) {
      return InvalidArgument("the vocabulary has \"{}\" twice", vocabulary[i]);
    }
  }
  std::vector<int64_t> result;
  result.reserve(words.size());
  for (const std::string& word : words) {
    const auto it = ids.find(word);
    result.push_back(it == ids.end() ? 0 : it->second);
  }
  return result;
}

}  // namespace cohort
