#include "ps_server/request_assembler.h"

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

PushHeaderView HeaderOf(const v1::PushPart& part) {
  PushHeaderView header;
  header.id = {part.id().closure(), part.id().ordinal()};
  header.attempt = part.attempt();
  header.place = part.place();
  header.timeline = part.timeline();
  header.weight = part.weight();
  header.closures_in_step = part.closures_in_step();
  return header;
}

}  // namespace

absl::Status RequestAssembler::Add(const v1::PushPullHeader& header, Payload payload) {
  absl::Status status = AddMessage(header, payload);
  if (!status.ok()) Clear();
  return status;
}

absl::Status RequestAssembler::AddMessage(const v1::PushPullHeader& header, Payload payload) {
  COHORT_RETURN_IF_ERROR(Begin(header));
  size_t next = 0;
  if (header.has_push()) COHORT_RETURN_IF_ERROR(AddPush(header.push(), payload, &next));
  if (header.has_pull()) COHORT_RETURN_IF_ERROR(AddPull(header.pull(), payload, &next));
  if (next != payload.size()) {
    return InvalidArgument("the entries need {} payload fields, there are {}", next,
                           payload.size());
  }
  return absl::OkStatus();
}

absl::Status RequestAssembler::Begin(const v1::PushPullHeader& header) {
  if (messages_++ > 0) {
    if (view_.sequence == header.sequence() && view_.generation == header.generation()) {
      return absl::OkStatus();
    }
    return InvalidArgument("sequence {} (generation {}) within sequence {} (generation {})",
                           header.sequence(), header.generation(), view_.sequence,
                           view_.generation);
  }
  used_pushes_ = 0;
  used_pulls_ = 0;
  view_.sequence = header.sequence();
  view_.generation = header.generation();
  view_.settled_watermark = header.settled_watermark();
  view_.has_push = false;
  view_.push = PushHeaderView();
  view_.pull_version = 0;
  return absl::OkStatus();
}

absl::Status RequestAssembler::AddPush(const v1::PushPart& part, Payload payload, size_t* next) {
  const PushHeaderView header = HeaderOf(part);
  if (view_.has_push && (header.id != view_.push.id || header.attempt != view_.push.attempt ||
                         header.timeline != view_.push.timeline)) {
    return InvalidArgument("pushes of closures {} and {} in one request", view_.push.id.closure,
                           header.id.closure);
  }
  view_.has_push = true;
  view_.push = header;
  for (const v1::PushSection& section : part.sections()) {
    size_t i = 0;
    while (i < used_pushes_ && pushes_[i].view.tablet != section.tablet()) ++i;
    if (i == used_pushes_) {
      if (++used_pushes_ > pushes_.size()) pushes_.emplace_back();
      pushes_[i].entries.clear();
      pushes_[i].view = {section.tablet(), section.term(), section.pulled_version(), {}};
    } else if (pushes_[i].view.term != section.term()) {
      return InvalidArgument("tablet {}: two terms in one request", section.tablet());
    }
    for (const v1::PushEntry& entry : section.entries()) {
      if (entry.kind() < v1::GRADIENT || entry.kind() > v1::RECORD_ONLY) {
        return InvalidArgument("shard {}: push kind {} is unknown", entry.shard(),
                               static_cast<int>(entry.kind()));
      }
      PushEntryView view;
      view.shard = entry.shard();
      view.kind = static_cast<PushKind>(entry.kind());
      if (view.kind != PushKind::kRecordOnly) {
        view.sparse = entry.sparse();
        view.begin = entry.sparse() ? 0 : entry.begin();
        view.count = entry.count();
        view.momentum = entry.momentum();
        if (view.sparse) COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.keys));
        COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.values));
      }
      pushes_[i].entries.push_back(view);
    }
  }
  return absl::OkStatus();
}

absl::Status RequestAssembler::AddPull(const v1::PullPart& part, Payload payload, size_t* next) {
  view_.pull_version = part.version();
  for (const v1::PullSection& section : part.sections()) {
    const size_t i = used_pulls_++;
    if (used_pulls_ > pulls_.size()) pulls_.emplace_back();
    pulls_[i].entries.clear();
    pulls_[i].view = {section.tablet(), section.term(), {}};
    for (const v1::PullEntry& entry : section.entries()) {
      PullEntryView view;
      view.shard = entry.shard();
      view.rows = entry.rows();
      view.count = entry.count();
      if (view.rows) COHORT_RETURN_IF_ERROR(TakePayload(payload, next, &view.keys));
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

}  // namespace cohort
