#include <cstring>
#include <deque>
#include <numeric>
#include <random>

#include "common/collective/direct.h"
#include "common/collective/ring.h"

namespace cohort {
namespace {

// Several ranks over a network that delivers frames of different pairs of ranks in random order, and
// those of one pair in the order in which they were sent.
template <typename T>
class SimulatedRanks {
 public:
  SimulatedRanks(CollectiveKind kind, int ranks, size_t elements, std::vector<int> order,
                 uint64_t seed)
      : random_(seed), links_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {
    std::mt19937 values(1);  // the same for every seed and number of ranks
    std::vector<std::vector<T>> places(order.size(), std::vector<T>(elements));
    for (auto& place : places) {
      for (T& value : place) value = static_cast<T>(values()) / static_cast<T>(1 << 22);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      auto& one = ranks_.emplace_back(std::make_unique<Rank>(this));
      one->buffer.assign(elements, T{-1});
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] == rank) one->contributions.push_back(places[i]);
      }
      one->shape.kind = kind;
      one->shape.rank = rank;
      one->shape.ranks = ranks;
      one->shape.order = order;
      one->shape.chunk_elements = 5;
    }
    // One contribution lies in the buffer itself.
    for (auto& one : ranks_) {
      if (!one->contributions.empty()) one->buffer = one->contributions[0];
      one->shape.buffer = std::span(one->buffer);
      for (size_t i = 0; i < one->contributions.size(); ++i) {
        one->shape.contributions.push_back(i == 0 ? std::span(one->buffer)
                                                  : std::span(one->contributions[i]));
      }
    }
  }

  // The parts of the owners are not those of PartOf.
  void SetParts(const std::vector<uint64_t>& ends) {
    for (auto& one : ranks_) one->shape.part_ends = ends;
  }

  template <typename Algorithm>
  void Run() {
    for (auto& one : ranks_) {
      one->algorithm = std::make_unique<Algorithm>();
      one->algorithm->Prepare(&one->shape, one.get());
    }
    std::vector<size_t> idle(ranks_.size());
    std::iota(idle.begin(), idle.end(), 0);
    std::shuffle(idle.begin(), idle.end(), random_);
    while (true) {
      // A rank that has not started receives nothing.
      std::vector<size_t> ready;
      for (size_t i = 0; i < links_.size(); ++i) {
        if (!links_[i].empty() && ranks_[i % ranks_.size()]->started) ready.push_back(i);
      }
      if (!idle.empty() && (ready.empty() || random_() % 4 == 0)) {
        Rank& one = *ranks_[idle.back()];
        idle.pop_back();
        one.started = true;
        one.algorithm->Start();
      } else if (!ready.empty()) {
        Deliver(ready[random_() % ready.size()]);
      } else {
        break;
      }
    }
    for (auto& one : ranks_) {
      CHECK(one->algorithm->received_all());
      CHECK(one->algorithm->WaitingFor() == -1);
      CHECK(one->outstanding == 0);
      for (int from = 0; from < static_cast<int>(ranks_.size()); ++from) {
        CHECK(one->received_from[static_cast<size_t>(from)] == one->algorithm->BytesFrom(from));
      }
    }
  }

  const std::vector<T>& buffer(int rank) const { return ranks_[static_cast<size_t>(rank)]->buffer; }

 private:
  struct OwnedChunk : Chunk {
    std::vector<uint8_t> bytes;
  };
  struct Rank : public ChunkPort {
    explicit Rank(SimulatedRanks* owner) : owner(owner) {}
    void Send(int to, const ChunkPlace& what, const uint8_t* elements) override {
      const size_t bytes = what.range.size() * sizeof(T);
      auto chunk = std::make_unique<OwnedChunk>();
      chunk->from = shape.rank;
      chunk->what = what;
      chunk->bytes.assign(elements, elements + bytes);
      owner
          ->links_[static_cast<size_t>(shape.rank) * owner->ranks_.size() + static_cast<size_t>(to)]
          .push_back({std::move(chunk), elements});
    }
    void Consumed(std::unique_ptr<Chunk> chunk) override { --outstanding; }

    SimulatedRanks* const owner;
    std::vector<T> buffer;
    std::vector<std::vector<T>> contributions;
    OperationShape shape;
    std::unique_ptr<CollectiveAlgorithm> algorithm;
    bool started = false;
    int outstanding = 0;  // chunks that are not given back
    std::map<size_t, uint64_t> received_from;
  };
  struct Sent {
    std::unique_ptr<OwnedChunk> chunk;
    const uint8_t* elements;
  };

  void Deliver(size_t link) {
    Sent sent = std::move(links_[link].front());
    links_[link].pop_front();
    Rank& to = *ranks_[link % ranks_.size()];
    OwnedChunk& chunk = *sent.chunk;
    // The sender has not written what it has sent by reference.
    const bool empty = chunk.bytes.empty();
    CHECK((empty || std::memcmp(chunk.bytes.data(), sent.elements, chunk.bytes.size()) == 0));
    const size_t cut = random_() % (chunk.bytes.size() + 1);
    chunk.pieces = {{chunk.bytes.data(), cut},
                    {chunk.bytes.data() + cut, chunk.bytes.size() - cut}};
    to.received_from[static_cast<size_t>(chunk.from)] += chunk.bytes.size();
    ++to.outstanding;
    REQUIRE(to.algorithm->OnChunk(std::move(sent.chunk)).ok());
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::deque<Sent>> links_;  // from * ranks + to
};

std::vector<int> OnePlaceEach(int ranks) {
  std::vector<int> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The left fold of all places.
template <typename T>
std::vector<T> Expected(size_t places, size_t elements) {
  std::mt19937 values(1);
  std::vector<T> sum;
  for (size_t place = 0; place < places; ++place) {
    std::vector<T> one(elements);
    for (T& value : one) value = static_cast<T>(values()) / static_cast<T>(1 << 22);
    if (place == 0) sum = one;
    for (size_t i = 0; place > 0 && i < elements; ++i) sum[i] += one[i];
  }
  return sum;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b, ElementRange range) {
  return range.size() == 0 ||
         std::memcmp(a.data() + range.begin, b.data() + range.begin, range.size() * sizeof(T)) == 0;
}

constexpr size_t kSizes[] = {0, 1, 2, 7, 31, 64, 101};

TEST_CASE("parts are contiguous, and only the last ones are shorter") {
  for (const uint64_t elements : kSizes) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      uint64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ElementRange part = PartOf(elements, ranks, rank);
        CHECK(part.begin == next);
        CHECK(part.size() <= PartOf(elements, ranks, 0).size());
        next = part.end;
      }
      CHECK(next == elements);
    }
  }
  CHECK(PartOf(10, 4, 3) == ElementRange{9, 10});
  CHECK(PartOf(5, 4, 3) == ElementRange{5, 5});
}

TEMPLATE_TEST_CASE("direct and exchange have the bits of a left fold for every order of arrival",
                   "", float, double) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const size_t elements : kSizes) {
      const std::vector<TestType> expected =
          Expected<TestType>(static_cast<size_t>(ranks), elements);
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SimulatedRanks<TestType> reduced(CollectiveKind::kReduceScatter, ranks, elements,
                                         OnePlaceEach(ranks), seed);
        reduced.template Run<DirectAlgorithm>();
        SimulatedRanks<TestType> direct(CollectiveKind::kAllReduce, ranks, elements,
                                        OnePlaceEach(ranks), seed);
        direct.template Run<DirectAlgorithm>();
        SimulatedRanks<TestType> exchange(CollectiveKind::kAllReduce, ranks, elements,
                                          OnePlaceEach(ranks), seed);
        exchange.template Run<ExchangeAlgorithm>();
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(SameBits(reduced.buffer(rank), expected, PartOf(elements, ranks, rank)));
          CHECK(SameBits(direct.buffer(rank), expected, {0, elements}));
          CHECK(SameBits(exchange.buffer(rank), expected, {0, elements}));
        }
      }
    }
  }
}

TEST_CASE("places decide the bits, not who has them") {
  constexpr size_t kElements = 101;
  const std::vector<float> expected = Expected<float>(5, kElements);
  const std::vector<std::vector<int>> orders = {
      {0, 0, 0, 0, 0}, {0, 1, 0, 1, 0}, {1, 1, 0, 0, 1}, {2, 0, 2, 1, 0}, {3, 3, 1, 3, 3}};
  const int ranks[] = {1, 2, 2, 3, 4};
  for (size_t i = 0; i < orders.size(); ++i) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SimulatedRanks<float> direct(CollectiveKind::kAllReduce, ranks[i], kElements, orders[i],
                                   seed);
      direct.Run<DirectAlgorithm>();
      SimulatedRanks<float> exchange(CollectiveKind::kAllReduce, ranks[i], kElements, orders[i],
                                     seed);
      exchange.Run<ExchangeAlgorithm>();
      for (int rank = 0; rank < ranks[i]; ++rank) {
        CHECK(SameBits(direct.buffer(rank), expected, {0, kElements}));
        CHECK(SameBits(exchange.buffer(rank), expected, {0, kElements}));
      }
    }
  }
}

TEMPLATE_TEST_CASE("a ring sums every part, and gives the same bits in every run", "", float,
                   double) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const size_t elements : kSizes) {
      const std::vector<TestType> expected =
          Expected<TestType>(static_cast<size_t>(ranks), elements);
      std::vector<TestType> first;
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SimulatedRanks<TestType> reduced(CollectiveKind::kReduceScatter, ranks, elements,
                                         OnePlaceEach(ranks), seed);
        reduced.template Run<RingAlgorithm>();
        SimulatedRanks<TestType> ring(CollectiveKind::kAllReduce, ranks, elements,
                                      OnePlaceEach(ranks), seed);
        ring.template Run<RingAlgorithm>();
        if (first.empty()) first = ring.buffer(0);
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(SameBits(reduced.buffer(rank), first, PartOf(elements, ranks, rank)));
          CHECK(SameBits(ring.buffer(rank), first, {0, elements}));
        }
      }
      for (size_t i = 0; i < elements; ++i) {
        CHECK(first[i] == Approx(expected[i]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("owners may have parts of any size, also none") {
  constexpr size_t kElements = 64;
  const std::vector<float> expected = Expected<float>(4, kElements);
  for (const std::vector<uint64_t>& ends :
       {std::vector<uint64_t>{3, 3, 60, 64}, {0, 64, 64, 64}, {64, 64, 64, 64}, {0, 0, 0, 64}}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SimulatedRanks<float> ring(CollectiveKind::kReduceScatter, 4, kElements, OnePlaceEach(4),
                                 seed);
      ring.SetParts(ends);
      ring.Run<RingAlgorithm>();
      SimulatedRanks<float> direct(CollectiveKind::kReduceScatter, 4, kElements, OnePlaceEach(4),
                                   seed);
      direct.SetParts(ends);
      direct.Run<DirectAlgorithm>();
      for (int rank = 0; rank < 4; ++rank) {
        const ElementRange part = PartAmong(ends, kElements, 4, rank);
        CHECK(SameBits(direct.buffer(rank), expected, part));
        for (size_t i = part.begin; i < part.end; ++i) {
          CHECK(ring.buffer(rank)[i] == Approx(expected[i]).epsilon(1e-5));
        }
      }
    }
  }
  std::vector<float> buffer(4);
  const std::vector<uint64_t> wrong[] = {{4}, {3, 2, 4}, {1, 2, 3}};
  for (const std::vector<uint64_t>& ends : wrong) {
    const CollectiveCall call{.buffer = std::span(buffer), .part_ends = ends};
    CHECK(absl::IsInvalidArgument(CheckCollectiveCall(call, 3, 0)));
  }
}

TEST_CASE("an all-gather brings every part to every rank") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const size_t elements : kSizes) {
      for (const bool ring : {false, true}) {
        SimulatedRanks<float> gathered(CollectiveKind::kAllGather, ranks, elements,
                                       OnePlaceEach(ranks), 5);
        const SimulatedRanks<float> before(CollectiveKind::kAllGather, ranks, elements,
                                           OnePlaceEach(ranks), 5);
        ring ? gathered.Run<RingAlgorithm>() : gathered.Run<DirectAlgorithm>();
        for (int rank = 0; rank < ranks; ++rank) {
          for (int owner = 0; owner < ranks; ++owner) {
            CHECK(SameBits(gathered.buffer(rank), before.buffer(owner),
                           PartOf(elements, ranks, owner)));
          }
        }
      }
    }
  }
}

// Chunks that no rank of this operation sends.
TEST_CASE("a chunk that does not belong to the operation is refused") {
  struct NoPort : public ChunkPort {
    void Send(int, const ChunkPlace&, const uint8_t*) override {}
    void Consumed(std::unique_ptr<Chunk>) override {}
  } port;
  std::vector<float> buffer(20);
  OperationShape shape;
  shape.rank = 0;
  shape.ranks = 2;
  shape.buffer = std::span(buffer);
  shape.order = {0, 1};
  shape.contributions = {std::span(buffer)};
  shape.chunk_elements = 5;
  DirectAlgorithm direct;
  RingAlgorithm ring;
  const auto refused = [&](CollectiveAlgorithm* algorithm, int from, const ChunkPlace& what) {
    algorithm->Prepare(&shape, &port);
    auto chunk = std::make_unique<Chunk>();
    chunk->from = from;
    chunk->what = what;
    return absl::IsInvalidArgument(algorithm->OnChunk(std::move(chunk)));
  };
  CHECK(refused(&direct, 1, {ChunkPhase::kScatter, 7, {0, 5}}));    // no such place
  CHECK(refused(&direct, 1, {ChunkPhase::kScatter, 0, {0, 5}}));    // another rank has it
  CHECK(refused(&direct, 1, {ChunkPhase::kScatter, 1, {10, 15}}));  // another owner's part
  CHECK(refused(&direct, 1, {ChunkPhase::kScatter, 1, {1, 6}}));    // beside the chunks
  CHECK(refused(&direct, 1, {ChunkPhase::kScatter, 1, {5, 5}}));    // empty
  CHECK(refused(&direct, 1, {ChunkPhase::kGather, 0, {0, 5}}));     // its sender does not own it
  CHECK(refused(&ring, 1, {ChunkPhase::kScatter, 0, {0, 0}}));
  shape.ranks = 3;
  shape.order = {0, 1, 2};
  CHECK(refused(&ring, 1, {ChunkPhase::kScatter, 0, {0, 5}}));  // not the rank before it
}

}  // namespace
}  // namespace cohort
