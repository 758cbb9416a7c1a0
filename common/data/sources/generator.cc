#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/data/source_class.h"
#include "common/data/table.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

// https://www.tensorflow.org/tutorials/distribute/parameter_server_training, "Define dataset"
constexpr std::array<const char*, 7> kWords = {"avenger",   "ironman",  "batman",      "hulk",
                                               "spiderman", "kingkong", "wonder_woman"};
constexpr uint32_t kAvenger = 0;
constexpr size_t kFeatures = 3;
// Records are generated once and kept: 16 bytes each.
constexpr double kMaxRecords = 1 << 28;

// Three distinct words, drawn as random.sample does: in order, without replacement.
std::array<uint32_t, kFeatures> Draw(uint64_t seed, uint64_t index) {
  const PhiloxBlock random = Philox(index, /*counter_high=*/0, seed);
  std::array<uint32_t, kWords.size()> words;
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = i;
  std::array<uint32_t, kFeatures> drawn;
  for (uint32_t i = 0; i < kFeatures; ++i) {
    std::swap(words[i], words[i + random[i] % (words.size() - i)]);
    drawn[i] = words[i];
  }
  return drawn;
}

absl::StatusOr<Table> GenerateTable(const Config& config, const SourceContext& context,
                                    const TableRequest& request) {
  const auto seed = static_cast<uint64_t>(config.Int("seed"));
  COHORT_ASSIGN_OR_RETURN(const RowRange rows,
                          ClampRange(request.range, static_cast<uint64_t>(config.Int("records"))));
  std::vector<uint32_t> features;
  std::vector<uint32_t> labels;
  features.reserve(rows.take * kFeatures);
  labels.reserve(rows.take);
  for (uint64_t i = 0; i < rows.take; ++i) {
    bool avenger = false;
    for (const uint32_t word : Draw(seed, rows.skip + i)) {
      features.push_back(word);
      avenger = avenger || word == kAvenger;
    }
    labels.push_back(avenger ? 0 : 1);
  }
  Table table;
  table.records = rows.take;
  Column& feature = table.columns.emplace_back();
  feature.name = "features";
  feature.dims = {static_cast<int64_t>(kFeatures)};
  feature.codes = std::make_shared<const std::vector<uint32_t>>(std::move(features));
  feature.words = std::make_shared<const std::vector<std::string>>(kWords.begin(), kWords.end());
  Column& label = table.columns.emplace_back();
  label.name = "label";
  label.codes = std::make_shared<const std::vector<uint32_t>>(std::move(labels));
  label.words =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"yes", "no"});
  return table;
}

}  // namespace

SourceClass GeneratorSource() {
  return {.schema = {.name = "generator",
                     .doc = "Records that are computed from (seed, index). `recommender` is the "
                            "dataset of TensorFlow's parameter server tutorial: columns `features` "
                            "(3 different words of 7) and `label` (`yes` if `avenger` is one of "
                            "them, else `no`).",
                     .arguments = {String("name", "The generator.").OneOf({"recommender"}),
                                   Int("records", "Records per epoch.").Between(1, kMaxRecords),
                                   Int("seed", "Seeds the records.").Default(0)}},
          .read_table = GenerateTable};
}

}  // namespace cohort
