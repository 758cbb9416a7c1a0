#include "tests/simulator/network.h"

#include <algorithm>

namespace cohort::simulator {

namespace {

Stream::Side Other(Stream::Side side) {
  return side == Stream::kDialler ? Stream::kAcceptor : Stream::kDialler;
}

// Bytes on the wire. Only the data path has large messages.
uint64_t BytesOf(const Message& message) {
  constexpr uint64_t kHeader = 32;
  const auto sum = [](const auto& data) {
    uint64_t bytes = kHeader;
    for (const auto& [words, size] : data.payload) bytes += size;
    return bytes;
  };
  if (const auto* request = std::get_if<DataRequest>(&message)) return sum(*request);
  if (const auto* response = std::get_if<DataResponse>(&message)) return sum(*response);
  if (const auto* copy = std::get_if<CopyMessage>(&message)) return sum(copy->push);
  return 0;
}

// The kind of a message, for the trace.
std::string Text(const Message& message) {
  if (const auto* request = std::get_if<DataRequest>(&message)) {
    const v1::PushPullHeader& h = request->header;
    std::string text = fmt::format("request {}", h.sequence());
    if (h.has_push()) {
      text += fmt::format(" push {}.{} attempt {} timeline {}", h.push().id().closure(),
                          h.push().id().ordinal(), h.push().attempt(), h.push().timeline());
    }
    return text + (h.has_pull() ? " pull" : "") + (h.more() ? " more" : "");
  }
  if (const auto* response = std::get_if<DataResponse>(&message)) {
    const v1::PushPullResponseHeader& h = response->header;
    std::string text = fmt::format("response {}", h.sequence());
    for (const auto& push : h.pushes()) {
      text += fmt::format(" {}:{}", push.tablet(), v1::SectionStatus_Name(push.status()));
    }
    return text + (h.pulls_size() > 0 ? " pulled" : "") + (h.more() ? " more" : "");
  }
  if (const auto* peer = std::get_if<PeerMessage>(&message)) {
    constexpr const char* kNames[] = {"open", "frame", "read", "half-close", "end"};
    std::string text = kNames[static_cast<size_t>(peer->kind)];
    if (peer->kind == PeerMessage::Kind::kOpen) text += " " + peer->bytes;
    if (peer->kind == PeerMessage::Kind::kFrame) text += fmt::format(" {} B", peer->bytes.size());
    if (peer->kind == PeerMessage::Kind::kEnd) text += " " + peer->status.ToString();
    return text;
  }
  if (const auto* copy = std::get_if<CopyMessage>(&message)) {
    return fmt::format("entry {} of tablet {} term {}: {}", copy->entry.number(),
                       copy->entry.tablet(), copy->entry.term(),
                       copy->entry.push()
                           ? fmt::format("push {}.{}", copy->push.header.push().id().closure(),
                                         copy->push.header.push().id().ordinal())
                       : copy->entry.has_close() ? "close"
                                                 : "abandon");
  }
  const auto short_text = [](const auto& m) -> std::string {
    if constexpr (requires { m.ShortDebugString(); }) {
      return m.ShortDebugString().substr(0, 200);
    } else {
      return "";
    }
  };
  return std::visit(short_text, message);
}

}  // namespace

// ------------------------------------------------------------------ Stream

bool Stream::alive(Side side) const {
  const End& end = ends_[side];
  return end.open && end.node->alive() && end.node->lives() == end.life;
}

bool Stream::Between(const Node* a, const Node* b) const {
  return (ends_[0].node == a && ends_[1].node == b) || (ends_[0].node == b && ends_[1].node == a);
}

void Stream::Dial() {
  World* const world = network_->world();
  End& dialler = ends_[kDialler];
  dialler.open = true;
  dialler.life = dialler.node->lives();
  dialler.heard_us = world->now_us();
  const int64_t clear = std::max(network_->ClearAt(dialler.node, ends_[kAcceptor].node),
                                 network_->ClearAt(ends_[kAcceptor].node, dialler.node));
  const bool cut = clear > world->now_us() + network_->shape().connect_timeout_us;
  const int64_t takes = cut ? network_->shape().connect_timeout_us
                            : clear - world->now_us() + 2 * network_->Latency();
  flight_[kAcceptor].last_us = world->now_us() + takes;  // what is sent before waits
  world->After(takes, [self = shared_from_this(), cut] {
    End& from = self->ends_[kDialler];
    End& to = self->ends_[kAcceptor];
    if (!self->alive(kDialler)) return;
    if (cut || !to.node->alive()) return self->TellClosed(kDialler, false);
    to.open = true;
    to.life = to.node->lives();
    to.heard_us = self->network_->world()->now_us();
    to.node->streams.push_back(self);
    to.node->Run([&] { to.node->life()->Accept(self, self->kind_); });
    if (!self->alive(kDialler)) return;
    from.node->Run([&] {
      if (from.callbacks.on_open) from.callbacks.on_open();
    });
  });
}

void Stream::Send(Side from, Message message) {
  if (!ends_[from].open || broken_) return;
  const Side to = Other(from);
  Flight& flight = flight_[to];
  World* const world = network_->world();
  ++network_->counts.messages;
  int64_t left_us = world->now_us();
  if (const uint64_t rate = network_->shape().bytes_per_second; rate > 0) {
    flight.busy_until_us = std::max(flight.busy_until_us, left_us) +
                           static_cast<int64_t>(BytesOf(message) * 1'000'000 / rate);
    left_us = flight.busy_until_us;
  }
  flight.last_us = std::max(flight.last_us, left_us + network_->Latency());
  flight.messages.push_back(std::move(message));
  world->At(flight.last_us, [self = shared_from_this(), to] { self->Arrive(to); });
  // Later, because the sender is in the middle of a call.
  if (kind_ != StreamKind::kControl && network_->TakeLoseNext()) {
    world->After(0, [self = shared_from_this()] { self->Break(); });
  }
}

void Stream::Arrive(Side to) {
  Flight& flight = flight_[to];
  if (flight.messages.empty()) return;  // it was lost meanwhile
  World* const world = network_->world();
  End& end = ends_[to];
  const int64_t clear = std::max(network_->ClearAt(ends_[Other(to)].node, end.node),
                                 alive(to) ? end.node->frozen_until_us() : 0);
  if (clear > world->now_us()) {
    flight.last_us = std::max(flight.last_us, clear);
    world->At(clear, [self = shared_from_this(), to] { self->Arrive(to); });
    return;
  }
  Message message = std::move(flight.messages.front());
  flight.messages.pop_front();
  if (!alive(to)) return;
  end.heard_us = world->now_us();
  flight.arrived += BytesOf(message);
  if (network_->shape().double_percent == 0 || kind_ != StreamKind::kData) {
    return Deliver(to, std::move(message));
  }
  const Message copy = message;
  Deliver(to, std::move(message));
  DeliverAgain(to, copy);
}

void Stream::Deliver(Side to, Message message) {
  World* const world = network_->world();
  End& end = ends_[to];
  if (!alive(to)) return;
  if (world->trace) {
    world->Trace("{} -> {}: {}", ends_[Other(to)].node->name(), end.node->name(), Text(message));
  }
  end.node->Run([&] {
    if (end.callbacks.on_message) end.callbacks.on_message(std::move(message));
  });
}

// Now and then. A request is doubled as a whole, because its messages only mean something together.
void Stream::DeliverAgain(Side to, const Message& message) {
  std::vector<Message>& request = flight_[to].request;
  request.push_back(message);
  const auto* const part = std::get_if<DataRequest>(&message);
  if (part != nullptr && part->header.more()) return;
  const std::vector<Message> whole = std::exchange(request, {});
  if (!network_->world()->chance.Percent(network_->shape().double_percent)) return;
  ++network_->counts.doubled;
  for (const Message& again : whole) Deliver(to, again);
}

void Stream::Lose(Side to, bool all) {
  auto& messages = flight_[to].messages;
  const size_t kept = all ? 0 : network_->world()->chance.Below(messages.size() + 1);
  NetworkCounts& counts = network_->counts;
  for (; messages.size() > kept; messages.pop_back()) {
    if (std::holds_alternative<DataRequest>(messages.back())) {
      ++counts.lost_requests;
    } else if (std::holds_alternative<DataResponse>(messages.back())) {
      ++counts.lost_responses;
    } else {
      ++counts.lost_control;
    }
  }
}

void Stream::TellClosed(Side side, bool silent_counts) {
  if (!ends_[side].open) return;
  World* const world = network_->world();
  const int64_t at = std::max(flight_[side].last_us, world->now_us() + network_->Latency());
  world->At(at, [self = shared_from_this(), side, silent_counts] {
    End& end = self->ends_[side];
    World* const w = self->network_->world();
    if (!self->alive(side)) return;
    const int64_t clear = std::max(self->network_->ClearAt(self->ends_[Other(side)].node, end.node),
                                   end.node->frozen_until_us());
    if (clear > w->now_us() || !self->flight_[side].messages.empty()) {
      self->flight_[side].last_us = std::max(self->flight_[side].last_us, clear);
      return self->TellClosed(side, silent_counts);
    }
    end.open = false;
    const bool silent =
        silent_counts && w->now_us() - end.heard_us >= self->network_->shape().silence_us;
    end.node->Run([&] {
      if (end.callbacks.on_closed) end.callbacks.on_closed(silent);
    });
    end.callbacks = {};
  });
}

void Stream::Close(Side by) {
  if (!ends_[by].open) return;
  ends_[by].open = false;
  Lose(by, /*all=*/true);
  Lose(Other(by), /*all=*/false);
  TellClosed(Other(by), false);
}

void Stream::Break() {
  ++network_->counts.breaks;
  broken_ = true;
  for (const Side side : {kDialler, kAcceptor}) Lose(side, /*all=*/false);
  for (const Side side : {kDialler, kAcceptor}) TellClosed(side, true);
}

void Stream::OnDeath(Node* node) {
  for (const Side side : {kDialler, kAcceptor}) {
    if (ends_[side].node == node && ends_[side].life == node->lives()) Close(side);
  }
}

// Each end that hears nothing for long closes the stream by itself. The other end learns of it when
// the cut is over, unless it has closed the stream too.
void Stream::OnCut(int64_t until_us) {
  World* const world = network_->world();
  for (const Side side : {kDialler, kAcceptor}) {
    const int64_t gives_up =
        world->now_us() + network_->shape().keepalive_us + world->chance.Between(0, 100'000);
    if (gives_up >= until_us) continue;
    world->At(gives_up, [self = shared_from_this(), side] {
      End& end = self->ends_[side];
      if (!self->alive(side)) return;
      end.open = false;
      self->Lose(side, /*all=*/true);
      self->Lose(Other(side), /*all=*/false);
      self->TellClosed(Other(side), true);
      end.node->After(0, [self, side] {
        if (self->ends_[side].callbacks.on_closed) self->ends_[side].callbacks.on_closed(true);
        self->ends_[side].callbacks = {};
      });
    });
  }
}

// ------------------------------------------------------------------ Network

int64_t Network::Latency() {
  Chance& chance = world_->chance;
  if (chance.Percent(shape_.slow_percent)) return chance.Between(shape_.latency_us, shape_.slow_us);
  return shape_.latency_us + chance.Between(0, shape_.jitter_us);
}

std::shared_ptr<Stream> Network::Dial(Node* from, Node* to, StreamKind kind,
                                      Stream::Callbacks callbacks) {
  auto stream = std::make_shared<Stream>(this, from, to, kind);
  stream->Set(Stream::kDialler, std::move(callbacks));
  from->streams.push_back(stream);
  stream->Dial();
  return stream;
}

int64_t Network::ClearAt(const Node* from, const Node* to) const {
  for (const CutWay& cut : cuts_) {
    if (cut.until_us > world_->now_us() && cut.from == from && cut.to == to) return cut.until_us;
  }
  return world_->now_us();
}

// The pings of both ends of a stream need both ways: OnCut is for one way, too.
void Network::Cut(Node* a, Node* b, int64_t until_us, bool one_way) {
  ++counts.cuts;
  counts.one_way_cuts += one_way ? 1 : 0;
  world_->Trace("{} {} {} until {}", a->name(), one_way ? "cannot reach" : "is cut off from",
                b->name(), until_us);
  std::erase_if(cuts_, [&](const CutWay& cut) { return cut.until_us <= world_->now_us(); });
  cuts_.push_back({a, b, until_us});
  if (!one_way) cuts_.push_back({b, a, until_us});
  std::erase_if(a->streams, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : std::vector(a->streams)) {
    const auto stream = weak.lock();
    if (stream != nullptr && stream->Between(a, b)) stream->OnCut(until_us);
  }
}

void Network::BreakOne(Node* node) {
  std::erase_if(node->streams, [](const auto& weak) {
    const auto stream = weak.lock();
    return stream == nullptr ||
           (!stream->open(Stream::kDialler) && !stream->open(Stream::kAcceptor));
  });
  if (node->streams.empty()) return;
  const auto stream = node->streams[world_->chance.Below(node->streams.size())].lock();
  world_->Trace("a stream of {} breaks", node->name());
  stream->Break();
}

}  // namespace cohort::simulator
