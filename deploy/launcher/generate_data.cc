#include "deploy/launcher/generate_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/data/click_log.h"

namespace cohort {
namespace {

constexpr size_t kPieceBytes = 1 << 20;  // what is written at a time
constexpr int64_t kMostIds = int64_t{1} << 40;

// One number for all tables, or one for each.
absl::StatusOr<std::array<int64_t, ClickRecord::kTables>> ReadVocabulary(std::string_view text) {
  std::vector<int64_t> sizes;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    int64_t size = 0;
    const auto [last, error] = std::from_chars(text.data() + at, text.data() + end, size);
    if (error != std::errc() || last != text.data() + end || size < 1 || size > kMostIds) {
      return UsageError("--vocabulary: \"{}\" is not a number of ids from 1 to {}",
                        text.substr(at, end - at), kMostIds);
    }
    sizes.push_back(size);
    at = end + 1;
  }
  std::array<int64_t, ClickRecord::kTables> vocabulary;
  if (sizes.size() != 1 && sizes.size() != vocabulary.size()) {
    return UsageError("--vocabulary: has {} numbers: give one for all tables, or {}", sizes.size(),
                      vocabulary.size());
  }
  for (size_t i = 0; i < vocabulary.size(); ++i) vocabulary[i] = sizes[i % sizes.size()];
  return vocabulary;
}

std::string Header() {
  std::string header = "label";
  for (size_t i = 1; i <= ClickRecord::kNumbers; ++i) header += fmt::format(",I{}", i);
  for (size_t i = 1; i <= ClickRecord::kTables; ++i) header += fmt::format(",C{}", i);
  return header + "\n";
}

void AppendLine(const ClickRecord& record, std::string* text) {
  const auto out = std::back_inserter(*text);
  *text += record.click ? '1' : '0';
  for (const int64_t number : record.numbers) fmt::format_to(out, ",{}", number);
  for (const std::vector<int64_t>& ids : record.tables) {
    fmt::format_to(out, ",{}", fmt::join(ids, "|"));
  }
  *text += '\n';
}

// What the hidden model reaches.
struct Figures {
  AucCounter auc;
  double clicks = 0, log_loss = 0;

  void Add(const ClickRecord& record) {
    auc.Add(record.probability, record.click);
    clicks += record.click ? 1 : 0;
    log_loss -= std::log(record.click ? record.probability : 1 - record.probability);
  }
};

}  // namespace

absl::StatusOr<std::string> GenerateData(const GenerateOptions& options) {
  if (options.kind != "criteo") {
    return UsageError("KIND: there is no \"{}\"; there is criteo", options.kind);
  }
  if (options.records == 0) {
    return UsageError("--records: say how many records to write, as --records 100000");
  }
  COHORT_RETURN_IF_ERROR(CheckBetween("--records", options.records, 1, int64_t{1} << 40));
  COHORT_RETURN_IF_ERROR(CheckBetween("--begin", options.begin, 0, int64_t{1} << 40));
  if (options.output.empty()) return UsageError("--output: name the file to write");
  ClickLogOptions log_options = {
      .seed = options.seed, .hashed = options.hashed, .bags = options.bags};
  COHORT_ASSIGN_OR_RETURN(log_options.vocabulary, ReadVocabulary(options.vocabulary));
  const ClickLog log(log_options);

  const std::string unfinished = options.output + ".part";
  auto created = DurableFile::Create(unfinished, DurableFile::Mode::kReplace);
  COHORT_RETURN_IF_ERROR(WithExitCode(created.status(), ExitCode::kCantCreate));
  DurableFile& file = **created;
  std::string text = Header();
  ClickRecord record;
  Figures figures;
  for (int64_t i = 0; i < options.records; ++i) {
    log.Draw(static_cast<uint64_t>(options.begin + i), &record);
    figures.Add(record);
    AppendLine(record, &text);
    if (text.size() < kPieceBytes && i + 1 < options.records) continue;
    COHORT_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
    text.clear();
  }
  COHORT_RETURN_IF_ERROR(file.RenameTo(options.output));
  COHORT_RETURN_IF_ERROR(file.Close());
  const auto records = static_cast<double>(options.records);
  return fmt::format(
      "{}: {} records, {} bytes\nclicks: {:.4f} of the records\nthe hidden model reaches AUC "
      "{:.4f} and a log loss of {:.4f}\n",
      options.output, options.records, file.bytes(), figures.clicks / records, figures.auc.Value(),
      figures.log_loss / records);
}

}  // namespace cohort
