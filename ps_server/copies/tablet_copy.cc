#include "ps_server/copies/tablet_copy.h"

#include <vector>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/close_order.h"
#include "ps_server/copies/state_pieces.h"

namespace cohort {

uint64_t TabletCopy::term() const {
  MutexLock lock(&mu_);
  return term_;
}

absl::StatusOr<TabletCopy::Replayed> TabletCopy::Replay(const v1::CopyEntry& entry,
                                                        const Payload& payload) {
  MutexLock lock(&mu_);
  if (stopped_ || entry.term() != term_ || entry.timeline() != tablet_->timeline()) {
    return Aborted("tablet {}: an entry of term {}, timeline {} for a copy of term {}, timeline {}",
                   tablet_->number(), entry.term(), entry.timeline(), term_, tablet_->timeline());
  }
  if (payload.stream <= refused_streams_) {
    return Aborted("tablet {}: an entry of the log of an earlier copy", tablet_->number());
  }
  if (entry.has_state()) {
    COHORT_RETURN_IF_ERROR(AddState(entry.state(), payload));
    return Replayed{.done = done_, .state = pieces_};
  }
  if (fills_) return DataLoss("tablet {}: an entry before its state", tablet_->number());
  if (entry.number() <= done_) return Replayed{.done = done_, .state = pieces_};
  if (entry.number() != done_ + 1) {
    return DataLoss("tablet {}: entry {} of its log comes after entry {}", tablet_->number(),
                    entry.number(), done_);
  }
  Replayed replayed{.state = pieces_};
  COHORT_RETURN_IF_ERROR(Annotate(Do(entry, payload.push, &replayed.applied),
                                  fmt::format("entry {} of its log", entry.number())));
  replayed.done = ++done_;
  return replayed;
}

absl::Status TabletCopy::AddState(const v1::CopyState& piece, const Payload& payload) {
  if (piece.number() <= pieces_ && !fills_) return absl::OkStatus();
  if (!fills_ || piece.number() != pieces_ + 1) {
    return DataLoss("tablet {}: piece {} of its state comes after piece {}", tablet_->number(),
                    piece.number(), pieces_);
  }
  COHORT_RETURN_IF_ERROR(AddPiece(piece, payload.state, tablet_.get()));
  ++pieces_;
  fills_ = !piece.has_cut();
  if (piece.has_last_close()) {
    last_close_ = std::make_shared<const v1::CloseStep>(piece.last_close());
  }
  return absl::OkStatus();
}

bool TabletCopy::fills() const {
  MutexLock lock(&mu_);
  return fills_;
}

absl::Status TabletCopy::Do(const v1::CopyEntry& entry, const RequestView* push,
                            std::vector<StagedStep::Member>* applied) {
  if (entry.has_abandon()) {
    tablet_->Abandon(entry.abandon().step(), entry.abandon().step_try());
    return absl::OkStatus();
  }
  if (entry.has_close()) {
    if (tablet_->open_step() != entry.close().step()) {
      return DataLoss("tablet {}: step {} is closed while step {} is open", tablet_->number(),
                      entry.close().step(), tablet_->open_step());
    }
    PushEffect effect;
    COHORT_RETURN_IF_ERROR(tablet_->Close(CloseOrderOf(entry.close()), &effect, applied));
    last_close_ = std::make_shared<const v1::CloseStep>(entry.close());
    return absl::OkStatus();
  }
  if (push == nullptr || push->push_sections.size() != 1) {
    return DataLoss("tablet {}: an entry without its push", tablet_->number());
  }
  v1::PushResult result;
  // The tablet may not have heard the term yet that its primary has.
  PushSectionView section = push->push_sections.front();
  section.term = tablet_->term();
  tablet_->Push(tablet_->generation(), entry.watermark(), push->push, section, &result);
  const bool sync = push->push.step.sync();
  if (result.status() == (sync ? v1::STAGED : v1::APPLIED)) {
    if (sync) return absl::OkStatus();
    StagedStep::Member& member = applied->emplace_back();
    member.id = push->push.id;
    member.attempt = push->push.attempt;
    member.place = push->push.place;
    return absl::OkStatus();
  }
  return DataLoss("tablet {}: the push of closure {} is {} in its copy {}", tablet_->number(),
                  push->push.id.closure, v1::SectionStatus_Name(result.status()), result.message());
}

std::shared_ptr<const v1::CloseStep> TabletCopy::last_close() const {
  MutexLock lock(&mu_);
  return last_close_;
}

void TabletCopy::RefuseStreamsUpTo(uint64_t stream) {
  MutexLock lock(&mu_);
  refused_streams_ = stream;
}

void TabletCopy::BeginTerm(uint64_t term) {
  MutexLock lock(&mu_);
  if (term == term_ && !stopped_) return;
  term_ = term;
  done_ = 0;
  stopped_ = false;
}

void TabletCopy::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
}

}  // namespace cohort
