#include "ps_server/request_assembler.h"

#include <cstring>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

absl::Status TakePayload(RequestAssembler::Payload payload, size_t* next,
                         std::span<const uint8_t>* out) {
  if (*next >= payload.size()) {
    return InvalidArgument("the entries need more than the {} payload fields that are there",
                           payload.size());
  }
  *out = payload[(*next)++];
  return absl::OkStatus();
}

// What one request may name at most: far more than a job's layout gives one parameter server, and
// few enough that walking them costs little. With 2 MiB in each message, requests of 2 TiB have as
// many.
// Memory for widened payload that the next request finds.
constexpr size_t kKeptWidened = size_t{1} << 20;
constexpr size_t kMaxMessages = size_t{1} << 20;
constexpr size_t kMaxTablets = 1024;
constexpr size_t kMaxSections = size_t{1} << 21;  // a tablet has one in each message that names it
constexpr size_t kMaxEntries = size_t{1} << 21;
// Those of pulls are not cut: each is a whole shard, or names rows of one.
constexpr size_t kMaxPullEntries = 1 << 16;

absl::Status CountUp(size_t by, size_t most, const char* what, size_t* count) {
  if (by > most - *count) return ResourceExhausted("more than {} {} in one request", most, what);
  *count += by;
  return absl::OkStatus();
}

PushHeaderView HeaderOf(const v1::PushPart& part) {
  PushHeaderView header;
  header.id = {part.id().closure(), part.id().ordinal()};
  header.attempt = part.attempt();
  header.place = part.place();
  header.timeline = part.timeline();
  header.weight = part.weight();
  header.step = StepMembership::Of(part.step());
  header.iteration_offset = part.iteration_offset();
  return header;
}

}  // namespace

absl::Status RequestAssembler::Add(const v1::PushPullHeader& header, Payload payload,
                                   Pieces pieces) {
  absl::Status status = AddMessage(header, payload, pieces);
  if (!status.ok()) Clear();
  return status;
}

absl::Status RequestAssembler::AddMessage(const v1::PushPullHeader& header, Payload payload,
                                          Pieces pieces) {
  COHORT_RETURN_IF_ERROR(Begin(header));
  size_t next = 0;
  if (header.has_push()) COHORT_RETURN_IF_ERROR(AddPush(header.push(), payload, pieces, &next));
  if (header.has_pull()) COHORT_RETURN_IF_ERROR(AddPull(header.pull(), payload, &next));
  if (next != payload.size()) {
    return InvalidArgument("the entries need {} payload fields, there are {}", next,
                           payload.size());
  }
  return absl::OkStatus();
}

absl::Status RequestAssembler::Begin(const v1::PushPullHeader& header) {
  const bool first = messages_ == 0;
  COHORT_RETURN_IF_ERROR(CountUp(1, kMaxMessages, "messages", &messages_));
  if (!first) {
    if (view_.sequence == header.sequence() && view_.generation == header.generation()) {
      if (view_.settled_watermark == header.settled_watermark()) return absl::OkStatus();
      return InvalidArgument("sequence {}: watermarks {} and {} in one request", header.sequence(),
                             view_.settled_watermark, header.settled_watermark());
    }
    return InvalidArgument("sequence {} (generation {}) within sequence {} (generation {})",
                           header.sequence(), header.generation(), view_.sequence,
                           view_.generation);
  }
  widened_.Reset(kKeptWidened);
  used_pushes_ = 0;
  used_pulls_ = 0;
  sections_ = 0;
  entries_ = 0;
  pull_entries_ = 0;
  view_.sequence = header.sequence();
  view_.generation = header.generation();
  view_.settled_watermark = header.settled_watermark();
  view_.has_push = false;
  has_pull_ = false;
  view_.push = PushHeaderView();
  view_.pull_step = 0;
  return absl::OkStatus();
}

absl::Status RequestAssembler::AddPush(const v1::PushPart& part, Payload payload, Pieces pieces,
                                       size_t* next) {
  COHORT_RETURN_IF_ERROR(TakeHeader(HeaderOf(part)));
  for (const v1::PushSection& section : part.sections()) {
    PushSection* to = nullptr;
    COHORT_RETURN_IF_ERROR(FindSection(section, &to));
    for (const v1::PushEntry& entry : section.entries()) {
      if (entry.kind() < v1::GRADIENT || entry.kind() > v1::RECORD_ONLY) {
        return InvalidArgument("shard {}: push kind {} is unknown", entry.shard(),
                               static_cast<int>(entry.kind()));
      }
      PushEntryView view;
      view.shard = entry.shard();
      view.kind = static_cast<PushKind>(entry.kind());
      view.summed_elsewhere = view.kind == PushKind::kRecordOnly && entry.summed_elsewhere();
      if (view.kind != PushKind::kRecordOnly) {
        view.sparse = entry.sparse();
        view.begin = entry.sparse() ? 0 : entry.begin();
        view.count = entry.count();
        view.momentum = entry.momentum();
        if (view.sparse) COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.keys));
        COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.values));
        if (*next <= pieces.size()) view.pieces = pieces[*next - 1];
        COHORT_RETURN_IF_ERROR(Widen(entry, &view));
      }
      to->entries.push_back(view);
    }
  }
  return absl::OkStatus();
}

absl::Status RequestAssembler::Widen(const v1::PushEntry& entry, PushEntryView* view) {
  COHORT_RETURN_IF_ERROR(WidenKeyBytes(entry.key_bytes(), &view->keys));
  if (!entry.bfloat16()) return absl::OkStatus();
  const size_t bytes = view->value_bytes();
  if (bytes % sizeof(uint16_t) != 0) {
    return InvalidArgument("shard {}: {} bytes of bfloat16 values", entry.shard(), bytes);
  }
  auto* const words = reinterpret_cast<uint32_t*>(widened_.Take(2 * bytes));
  if (view->pieces.empty()) {
    WidenWords(view->values, words);
  } else {
    // A value may be cut.
    uint8_t* const halves = reinterpret_cast<uint8_t*>(words) + bytes;
    size_t at = 0;
    for (const auto& piece : view->pieces) {
      std::memcpy(halves + at, piece.data(), piece.size());
      at += piece.size();
    }
    WidenWords({halves, bytes}, words);
  }
  view->pieces = {};
  view->values = {reinterpret_cast<const uint8_t*>(words), 2 * bytes};
  return absl::OkStatus();
}

absl::Status RequestAssembler::WidenKeyBytes(uint32_t key_bytes, std::span<const uint8_t>* keys) {
  if (key_bytes == 0 || key_bytes == sizeof(int64_t)) return absl::OkStatus();
  if (key_bytes != sizeof(uint32_t) || keys->size() % sizeof(uint32_t) != 0) {
    return InvalidArgument("{} bytes of keys that have {} bytes each: 4 and 8 are possible",
                           keys->size(), key_bytes);
  }
  const size_t bytes = 2 * keys->size();
  auto* const wide = reinterpret_cast<int64_t*>(widened_.Take(bytes));
  WidenKeys(*keys, wide);
  *keys = {reinterpret_cast<const uint8_t*>(wide), bytes};
  return absl::OkStatus();
}

absl::Status RequestAssembler::TakeHeader(const PushHeaderView& header) {
  if (view_.has_push && header.id != view_.push.id) {
    return InvalidArgument("pushes of closures {} and {} in one request", view_.push.id.closure,
                           header.id.closure);
  }
  if (view_.has_push && header != view_.push) {
    return InvalidArgument(
        "closure {}: messages of one request differ in attempt, timeline, place, weight or "
        "step",
        header.id.closure);
  }
  view_.has_push = true;
  view_.push = header;
  return absl::OkStatus();
}

absl::Status RequestAssembler::FindSection(const v1::PushSection& section, PushSection** out) {
  COHORT_RETURN_IF_ERROR(CountUp(1, kMaxSections, "sections", &sections_));
  COHORT_RETURN_IF_ERROR(
      CountUp(static_cast<size_t>(section.entries_size()), kMaxEntries, "entries", &entries_));
  size_t i = 0;
  while (i < used_pushes_ && pushes_[i].view.tablet != section.tablet()) ++i;
  *out = pushes_.data() + i;
  if (i < used_pushes_) {
    const PushSectionView& view = (*out)->view;
    if (view.term == section.term() && view.pulled_version == section.pulled_version()) {
      return absl::OkStatus();
    }
    return InvalidArgument("tablet {}: two terms or pulled versions in one request",
                           section.tablet());
  }
  COHORT_RETURN_IF_ERROR(CountUp(1, kMaxTablets, "tablets pushed to", &used_pushes_));
  if (used_pushes_ > pushes_.size()) pushes_.emplace_back();
  *out = &pushes_[i];
  (*out)->entries.clear();
  (*out)->view = {section.tablet(), section.term(), section.pulled_version(), {}};
  return absl::OkStatus();
}

absl::Status RequestAssembler::AddPull(const v1::PullPart& part, Payload payload, size_t* next) {
  if (has_pull_ && view_.pull_step != part.step()) {
    return InvalidArgument("pulls of steps {} and {} in one request", view_.pull_step, part.step());
  }
  has_pull_ = true;
  view_.pull_step = part.step();
  for (const v1::PullSection& section : part.sections()) {
    for (size_t i = 0; i < used_pulls_; ++i) {
      if (pulls_[i].view.tablet != section.tablet()) continue;
      return InvalidArgument("tablet {} is pulled twice in one request", section.tablet());
    }
    const size_t i = used_pulls_;
    COHORT_RETURN_IF_ERROR(CountUp(1, kMaxTablets, "tablets pulled from", &used_pulls_));
    const auto entries = static_cast<size_t>(section.entries_size());
    COHORT_RETURN_IF_ERROR(CountUp(entries, kMaxPullEntries, "entries of pulls", &pull_entries_));
    COHORT_RETURN_IF_ERROR(CountUp(entries, kMaxEntries, "entries", &entries_));
    if (used_pulls_ > pulls_.size()) pulls_.emplace_back();
    pulls_[i].entries.clear();
    pulls_[i].view = {section.tablet(), section.term(), {}};
    for (const v1::PullEntry& entry : section.entries()) {
      PullEntryView view;
      view.shard = entry.shard();
      view.rows = entry.rows();
      view.average = entry.average();
      view.count = entry.count();
      if (view.rows) COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.keys));
      COHORT_RETURN_IF_ERROR(WidenKeyBytes(entry.key_bytes(), &view.keys));
      pulls_[i].entries.push_back(view);
    }
  }
  return absl::OkStatus();
}

const RequestView& RequestAssembler::Finish() {
  view_.push_sections.clear();
  for (size_t i = 0; i < used_pushes_; ++i) {
    view_.push_sections.push_back(pushes_[i].view);
    view_.push_sections.back().entries = pushes_[i].entries;
  }
  view_.pull_sections.clear();
  for (size_t i = 0; i < used_pulls_; ++i) {
    view_.pull_sections.push_back(pulls_[i].view);
    view_.pull_sections.back().entries = pulls_[i].entries;
  }
  messages_ = 0;
  return view_;
}

void RequestAssembler::Clear() { messages_ = 0; }

size_t RequestAssembler::Trim(size_t entries) {
  size_t kept = 0;
  for (const PushSection& section : pushes_) kept += section.entries.capacity();
  for (const PullSection& section : pulls_) kept += section.entries.capacity();
  if (kept > entries) {
    std::vector<PushSection>().swap(pushes_);
    std::vector<PullSection>().swap(pulls_);
    used_pushes_ = used_pulls_ = 0;
    kept = 0;
  }
  widened_.Reset(entries == 0 ? 0 : kKeptWidened);
  return kept * sizeof(PushEntryView) + pushes_.capacity() * sizeof(PushSection) +
         pulls_.capacity() * sizeof(PullSection) + widened_.bytes();
}

size_t RequestAssembler::bytes() const {
  return entries_ * sizeof(PushEntryView) + (used_pushes_ + used_pulls_) * sizeof(PushSection) +
         widened_.bytes();
}

}  // namespace cohort
