// The part of Exchange that makes requests.
#include <algorithm>

#include "common/exchange/exchange.h"

namespace cohort {
namespace {

Bytes KeyBytes(const int64_t* keys, uint64_t begin, uint64_t count) {
  return {reinterpret_cast<const uint8_t*>(keys + begin), count * sizeof(int64_t)};
}

}  // namespace

// The sections of this server that are not done yet: pushes cut into messages of about chunk_bytes,
// and in the last of them the pulls.
void Exchange::Build(size_t server, bool compact) {
  used_ = 0;
  compact_ = compact;
  servers_[server].sequence = next_sequence_++;
  servers_[server].later = false;
  NextMessage();
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server == static_cast<int>(server) && !tablets_[t].push_done) {
      AddPushes(t);
    }
  }
  if (has_pull_) {
    ExchangeMessage* message = &messages_[used_ - 1];
    message->pull()->set_place(pull_place_);
    message->pull()->set_ordinal(pull_ordinal_);
    message->pull()->set_step(pull_step_);
  }
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server == static_cast<int>(server) && !tablets_[t].pull_done) {
      AddPulls(t);
    }
  }
  for (size_t i = 0; i < used_; ++i) {
    v1::PushPullHeader& header = messages_[i].header;
    header.set_sequence(servers_[server].sequence);
    header.set_generation(generation_);
    header.set_settled_watermark(watermark_);
    header.set_more(i + 1 < used_);
    header.clear_reading();
    for (const Loan& loan : loans_) {
      if (loan.ps == routes_->servers[server].ps) header.add_reading(loan.sequence);
    }
  }
}

// The keys as 32 bits if the server takes them so and all of them fit.
Bytes Exchange::KeysToSend(const int64_t* keys, uint64_t begin, uint64_t count,
                           uint32_t* key_bytes) {
  *key_bytes = 0;
  if (compact_ && count > 0) {
    const size_t bytes = count * sizeof(uint32_t);
    auto* const narrow = reinterpret_cast<uint32_t*>(compact_bytes_.Take(bytes));
    if (NarrowKeys({keys + begin, count}, narrow)) {
      *key_bytes = sizeof(uint32_t);
      return {reinterpret_cast<const uint8_t*>(narrow), bytes};
    }
    compact_bytes_.Undo(bytes);
  }
  return KeyBytes(keys, begin, count);
}

// The upper halves of the words if the server takes them so and the lower ones are 0.
Bytes Exchange::ValuesToSend(Bytes values, bool* halves) {
  *halves = false;
  if (compact_ && !values.empty() && values.size() % sizeof(uint32_t) == 0) {
    const size_t bytes = values.size() / 2;
    auto* const narrow = reinterpret_cast<uint16_t*>(compact_bytes_.Take(bytes));
    if (NarrowWords(values, narrow)) {
      *halves = true;
      return {reinterpret_cast<const uint8_t*>(narrow), bytes};
    }
    compact_bytes_.Undo(bytes);
  }
  return values;
}

void Exchange::NextMessage() {
  if (used_ == messages_.size()) messages_.emplace_back();
  ExchangeMessage* message = &messages_[used_++];
  message->Reset();
  room_ = options_.chunk_bytes;
}

v1::PushSection* Exchange::OpenSection(size_t tablet) {
  v1::PushPart* part = messages_[used_ - 1].push();
  if (part->sections_size() == 0) {
    part->mutable_id()->set_closure(stamp_.closure);
    part->mutable_id()->set_ordinal(stamp_.ordinal);
    part->set_attempt(stamp_.attempt);
    part->set_place(stamp_.place);
    part->set_timeline(stamp_.timeline);
    part->set_weight(stamp_.weight);
    part->set_iteration_offset(stamp_.iteration_offset);
    part->clear_step();  // the message is reused
    if (stamp_.step.sync()) stamp_.step.ToProto(part->mutable_step());
  }
  const TabletRoute& route = routes_->tablets[tablet];
  v1::PushSection* last =
      part->sections_size() == 0 ? nullptr : part->mutable_sections(part->sections_size() - 1);
  if (last != nullptr && last->tablet() == route.tablet) return last;
  v1::PushSection* section = part->add_sections();
  section->set_tablet(route.tablet);
  section->set_term(route.term);
  section->set_pulled_version(tablets_[tablet].pushed_version);
  return section;
}

// Every tablet of a program that pushes gets an entry, so that its set of applied ids stays dense.
void Exchange::AddPushes(size_t tablet) {
  if (plan_.first_push(static_cast<int>(tablet)) < 0) {
    v1::PushEntry* entry = OpenSection(tablet)->add_entries();
    entry->set_shard(routes_->tablets[tablet].shard);
    entry->set_kind(v1::RECORD_ONLY);
    return;
  }
  for (int i = plan_.first_push(static_cast<int>(tablet)); i >= 0; i = plan_.push(i).next) {
    AddPushPiece(tablet, plan_.push(i));
  }
}

void Exchange::AddPushPiece(size_t tablet, const PushPiece& piece) {
  const uint64_t unit = std::max<uint64_t>(1, piece.unit_bytes + (piece.sparse ? 8 : 0));
  uint64_t done = 0;
  do {
    uint64_t count = std::min(piece.count - done, room_ / unit);
    if (count == 0 && piece.count > done) {
      if (room_ < options_.chunk_bytes) {
        NextMessage();
        continue;
      }
      count = 1;
    }
    v1::PushEntry* entry = OpenSection(tablet)->add_entries();
    entry->set_shard(piece.shard);
    entry->set_kind(static_cast<v1::PushKind>(piece.kind));
    if (piece.summed_elsewhere) entry->set_summed_elsewhere(true);
    if (piece.kind == PushKind::kRecordOnly) return;
    entry->set_sparse(piece.sparse);
    entry->set_count(count);
    entry->set_momentum(piece.momentum);
    std::vector<Bytes>& payload = messages_[used_ - 1].payload;
    if (piece.sparse) {
      uint32_t key_bytes = 0;
      payload.push_back(KeysToSend(piece.keys, done, count, &key_bytes));
      entry->set_key_bytes(key_bytes);
    } else {
      entry->set_begin(done);
    }
    bool halves = false;
    payload.push_back(
        ValuesToSend({piece.values + done * piece.unit_bytes, count * piece.unit_bytes}, &halves));
    entry->set_bfloat16(halves);
    room_ -= std::min(room_, count * unit);
    done += count;
  } while (done < piece.count);
}

// A tablet of which no row is wanted is still asked for its version and timeline.
void Exchange::AddPulls(size_t tablet) {
  ExchangeMessage& message = messages_[used_ - 1];
  const TabletRoute& route = routes_->tablets[tablet];
  v1::PullSection* section = message.pull()->add_sections();
  section->set_tablet(route.tablet);
  section->set_term(route.term);
  tablets_[tablet].pull_started = false;
  for (int i = plan_.first_pull(static_cast<int>(tablet)); i >= 0; i = plan_.pull(i).next) {
    PullPiece& piece = plan_.pull(i);
    piece.received = 0;
    if (piece.lent != nullptr) *piece.lent = nullptr;
    v1::PullEntry* entry = section->add_entries();
    entry->set_shard(piece.shard);
    if (piece.average) entry->set_average(true);
    if (!piece.rows) continue;
    entry->set_rows(true);
    entry->set_count(piece.count);
    uint32_t key_bytes = 0;
    message.payload.push_back(KeysToSend(piece.keys, 0, piece.count, &key_bytes));
    entry->set_key_bytes(key_bytes);
  }
}

}  // namespace cohort
