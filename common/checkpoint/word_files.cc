#include "common/checkpoint/word_files.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// Shorter lists stay in the manifest, where people and older versions read them.
constexpr size_t kLongBytes = 16 * 1024;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

void AppendWord(const std::string& word, std::string* text) {
  for (const char c : word) {
    if (c == '\\') {
      *text += "\\\\";
    } else if (c == '\n') {
      *text += "\\n";
    } else {
      *text += c;
    }
  }
  *text += '\n';
}

// The text of a file with the words of this list; nullopt if they may stay in the manifest.
std::optional<std::string> TextOfLong(const v1::ConfigValue& value) {
  if (!value.has_list()) return std::nullopt;
  size_t bytes = 0;
  for (const v1::ConfigValue& word : value.list().values()) {
    if (word.value_case() != v1::ConfigValue::kS) return std::nullopt;
    bytes += word.s().size() + 1;
  }
  if (bytes <= kLongBytes) return std::nullopt;
  std::string text;
  text.reserve(bytes);
  for (const v1::ConfigValue& word : value.list().values()) AppendWord(word.s(), &text);
  return text;
}

absl::StatusOr<v1::ConfigList> WordsOf(const std::string& text, uint64_t count) {
  v1::ConfigList words;
  std::string word;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') {
      words.add_values()->set_s(std::exchange(word, ""));
    } else if (text[at] != '\\') {
      word += text[at];
    } else if (++at < text.size() && (text[at] == '\\' || text[at] == 'n')) {
      word += text[at] == 'n' ? '\n' : '\\';
    } else {
      return DataLoss("a backslash in word {} stands before neither n nor a backslash",
                      words.values_size());
    }
  }
  if (!word.empty()) return DataLoss("its last word has no line break");
  if (static_cast<uint64_t>(words.values_size()) != count) {
    return DataLoss("has {} words, the manifest says {}", words.values_size(), count);
  }
  return words;
}

// Links to the file of a neighbor. Returns false if none has it whole, or the storage has no links.
bool LinkFromNeighbor(const std::string& checkpoint_dir, const v1::WordsFile& file) {
  const std::string parent = JoinPath(checkpoint_dir, "..");
  const auto names = ListDirectory(parent);
  if (!names.ok()) return false;
  std::vector<CheckpointId> ids;
  for (const std::string& name : *names) {
    if (const auto id = CheckpointId::Parse(name)) ids.push_back(*id);
  }
  std::sort(ids.rbegin(), ids.rend());
  for (const CheckpointId& id : ids) {
    const std::string theirs = JoinPath(JoinPath(parent, id.ToString()), file.name());
    if (!VerifyFile(theirs, file.bytes(), file.crc32()).ok()) continue;
    return ::link(theirs.c_str(), JoinPath(checkpoint_dir, file.name()).c_str()) == 0;
  }
  return false;
}

absl::Status StoreFile(const std::string& checkpoint_dir, const std::string& text,
                       const v1::WordsFile& file) {
  const std::string path = JoinPath(checkpoint_dir, file.name());
  if (VerifyFile(path, file.bytes(), file.crc32()).ok()) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(RemoveFile(path));
  if (LinkFromNeighbor(checkpoint_dir, file)) return absl::OkStatus();
  // The name appears when the bytes are durable, so a neighbor may link to what a crash left.
  return WriteFileAtomically(path, text);
}

// Moves the long lists of one dataset to files, which `manifest` then names.
absl::Status StoreDataset(const std::string& checkpoint_dir, bool validation,
                          v1::DatasetSpec* dataset, v1::Manifest* manifest) {
  for (int i = 0; i < dataset->transforms_size(); ++i) {
    auto& config = *dataset->mutable_transforms(i)->mutable_transform_class()->mutable_config();
    for (auto& [argument, value] : config) {
      const std::optional<std::string> text = TextOfLong(value);
      if (!text.has_value()) continue;
      const std::string name = fmt::format("words-{:016x}.txt", Fnv1a(*text));
      const auto same =
          std::find_if(manifest->mutable_words()->begin(), manifest->mutable_words()->end(),
                       [&](const auto& file) { return file.name() == name; });
      v1::WordsFile* const file =
          same != manifest->mutable_words()->end() ? &*same : manifest->add_words();
      if (file->name().empty()) {
        file->set_name(name);
        file->set_bytes(text->size());
        file->set_crc32(Crc32(0, text->data(), text->size()));
        file->set_words(static_cast<uint64_t>(value.list().values_size()));
        COHORT_RETURN_IF_ERROR(StoreFile(checkpoint_dir, *text, *file));
      }
      v1::WordsPlace* const place = file->add_places();
      place->set_validation(validation);
      place->set_transform(static_cast<uint32_t>(i));
      place->set_argument(argument);
      value.clear_value();
    }
  }
  return absl::OkStatus();
}

absl::Status LoadFile(const std::string& path, const v1::WordsFile& file, v1::DataSpec* data) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxBytes);
  if (!text.ok()) return DataLoss("{}", std::string(text.status().message()));
  if (text->size() != file.bytes() || Crc32(0, text->data(), text->size()) != file.crc32()) {
    return DataLoss("{}: its size or checksum is not what the manifest says", path);
  }
  const absl::StatusOr<v1::ConfigList> words = WordsOf(*text, file.words());
  if (!words.ok()) return Annotate(words.status(), path);
  // Small files must not become lists that fill the memory.
  if (file.bytes() * static_cast<uint64_t>(file.places_size()) > kMaxBytes) {
    return DataLoss("{}: the manifest names {} places for it", path, file.places_size());
  }
  for (const v1::WordsPlace& place : file.places()) {
    v1::DatasetSpec* const dataset =
        place.validation() ? data->mutable_validation() : data->mutable_train();
    if (place.transform() >= static_cast<uint32_t>(dataset->transforms_size())) {
      return DataLoss("{}: the manifest names transform {} for it, and has {}", path,
                      place.transform(), dataset->transforms_size());
    }
    auto* const transform = dataset->mutable_transforms(static_cast<int>(place.transform()));
    auto& config = *transform->mutable_transform_class()->mutable_config();
    *config[place.argument()].mutable_list() = *words;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status StoreWords(const std::string& checkpoint_dir, v1::Manifest* manifest) {
  manifest->clear_words();
  if (!manifest->job_spec().has_data()) return absl::OkStatus();
  v1::DataSpec* const data = manifest->mutable_job_spec()->mutable_data();
  if (data->has_train()) {
    COHORT_RETURN_IF_ERROR(StoreDataset(checkpoint_dir, false, data->mutable_train(), manifest));
  }
  if (!data->has_validation()) return absl::OkStatus();
  return StoreDataset(checkpoint_dir, true, data->mutable_validation(), manifest);
}

absl::Status LoadWords(const std::string& checkpoint_dir, v1::Manifest* manifest) {
  for (const v1::WordsFile& file : manifest->words()) {
    COHORT_RETURN_IF_ERROR(LoadFile(JoinPath(checkpoint_dir, file.name()), file,
                                    manifest->mutable_job_spec()->mutable_data()));
  }
  return absl::OkStatus();
}

}  // namespace cohort
