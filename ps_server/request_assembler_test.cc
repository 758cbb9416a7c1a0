#include "ps_server/request_assembler.h"

#include <random>

#include "ps_server/core_test_util.h"
#include "ps_server/response_chunks.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

v1::PushEntry* AddEntry(TestRequest* request, uint32_t tablet, uint32_t shard) {
  v1::PushPart* push = request->header.mutable_push();
  v1::PushSection* section =
      push->sections_size() > 0 && push->sections(push->sections_size() - 1).tablet() == tablet
          ? push->mutable_sections(push->sections_size() - 1)
          : push->add_sections();
  section->set_tablet(tablet);
  v1::PushEntry* entry = section->add_entries();
  entry->set_shard(shard);
  entry->set_kind(v1::GRADIENT);
  return entry;
}

TEST_CASE("payload fields go to the entries in order") {
  TestRequest request;
  request.header.mutable_push()->mutable_id()->set_closure(9);
  AddEntry(&request, 1, 10)->set_kind(v1::RECORD_ONLY);
  AddEntry(&request, 1, 11)->set_count(1);
  request.Add(Floats{1});
  v1::PushEntry* sparse = AddEntry(&request, 2, 12);
  sparse->set_sparse(true);
  sparse->set_count(2);
  request.Add(std::vector<int64_t>{3, 4});
  request.Add(Floats{5, 6});
  v1::PullSection* pull = request.header.mutable_pull()->add_sections();
  pull->add_entries()->set_shard(13);
  pull->add_entries()->set_rows(true);
  request.Add(std::vector<int64_t>{7});

  RequestAssembler assembler;
  REQUIRE(assembler.Add(request.header, request.payload).ok());
  const RequestView& view = assembler.Finish();
  CHECK(view.push.id.closure == 9);
  REQUIRE(view.push_sections.size() == 2);
  CHECK(view.push_sections[0].entries[0].values.empty());
  CHECK(view.push_sections[0].entries[1].values.data() == request.payload[0].data());
  CHECK(view.push_sections[1].entries[0].keys.data() == request.payload[1].data());
  CHECK(view.push_sections[1].entries[0].values.data() == request.payload[2].data());
  REQUIRE(view.pull_sections.size() == 1);
  CHECK(view.pull_sections[0].entries[0].keys.empty());
  CHECK(view.pull_sections[0].entries[1].keys.data() == request.payload[3].data());
}

TEST_CASE("compact keys and values come as others do") {
  TestRequest request;
  request.header.mutable_push()->mutable_id()->set_closure(9);
  v1::PushEntry* sparse = AddEntry(&request, 2, 12);
  sparse->set_sparse(true);
  sparse->set_count(2);
  sparse->set_key_bytes(4);
  sparse->set_bfloat16(true);
  request.Add(std::vector<uint32_t>{3, 0xffffffff});
  request.Add(std::vector<uint16_t>{0x3f80, 0x4000});  // 1, 2
  v1::PushEntry* dense = AddEntry(&request, 2, 13);
  dense->set_count(3);
  dense->set_bfloat16(true);
  request.Add(std::vector<uint16_t>{0x3f80, 0x4000, 0x4040});
  v1::PullEntry* pull = request.header.mutable_pull()->add_sections()->add_entries();
  pull->set_rows(true);
  pull->set_key_bytes(4);
  request.Add(std::vector<uint32_t>{7});

  const auto as = [](std::span<const uint8_t> bytes, auto type) {
    const auto* const items = reinterpret_cast<const decltype(type)*>(bytes.data());
    return std::vector<decltype(type)>(items, items + bytes.size() / sizeof(type));
  };
  RequestAssembler assembler;
  for (const bool in_pieces : {false, true}) {
    // Cut inside a value.
    const auto bytes = request.payload[2];
    const std::vector<std::span<const uint8_t>> cut = {bytes.first(3), bytes.subspan(3)};
    std::vector<std::span<const std::span<const uint8_t>>> pieces(4);
    auto payload = request.payload;
    if (in_pieces) {
      pieces[2] = cut;
      payload[2] = {};
    }
    REQUIRE(assembler.Add(request.header, payload, pieces).ok());
    const RequestView& view = assembler.Finish();
    const auto entries = view.push_sections[0].entries;
    CHECK(as(entries[0].keys, int64_t{}) == std::vector<int64_t>{3, 0xffffffff});
    CHECK(as(entries[0].values, float{}) == Floats{1, 2});
    CHECK(entries[1].pieces.empty());
    CHECK(as(entries[1].values, float{}) == Floats{1, 2, 3});
    CHECK(as(view.pull_sections[0].entries[0].keys, int64_t{}) == std::vector<int64_t>{7});
  }
  CHECK(assembler.bytes() > 0);

  for (const uint32_t key_bytes : {1u, 2u, 5u, 16u}) {
    pull->set_key_bytes(key_bytes);
    CHECK(!assembler.Add(request.header, request.payload).ok());
  }
  pull->set_key_bytes(4);
  for (const size_t field : {0u, 1u, 2u, 3u}) {  // a byte too few
    auto payload = request.payload;
    payload[field] = payload[field].first(payload[field].size() - 1);
    CAPTURE(field);
    CHECK(!assembler.Add(request.header, payload).ok());
  }
}

TEST_CASE("messages of one request are put together by tablet") {
  RequestAssembler assembler;
  std::vector<TestRequest> messages(3);
  for (uint64_t i = 0; i < 3; ++i) {
    TestRequest& m = messages[i];
    m.header.set_sequence(4);
    m.header.set_more(i < 2);
    for (const uint32_t tablet : {i == 0 ? 1u : 2u, 3u}) {
      v1::PushEntry* entry = AddEntry(&m, tablet, 5);
      entry->set_begin(i * 2);
      entry->set_count(2);
      m.Add(Floats{float(i), float(tablet)});
    }
    REQUIRE(assembler.Add(m.header, m.payload).ok());
  }
  const RequestView& view = assembler.Finish();
  REQUIRE(view.push_sections.size() == 3);
  CHECK(view.push_sections[0].tablet == 1);
  CHECK(view.push_sections[0].entries.size() == 1);
  CHECK(view.push_sections[1].tablet == 3);
  REQUIRE(view.push_sections[1].entries.size() == 3);
  CHECK(view.push_sections[1].entries[2].begin == 4);
  CHECK(view.push_sections[2].entries.size() == 2);
  // The next request starts empty.
  TestRequest next;
  next.header.set_sequence(5);
  REQUIRE(assembler.Add(next.header, next.payload).ok());
  CHECK(assembler.Finish().push_sections.empty());
}

TEST_CASE("what does not fit together is refused") {
  RequestAssembler assembler;
  const auto refuse = [&](const TestRequest& request) {
    const absl::Status status = assembler.Add(request.header, request.payload);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(assembler.empty());
    return std::string(status.message());
  };
  TestRequest missing;
  AddEntry(&missing, 0, 0);
  CHECK_THAT(refuse(missing), Catch::Contains("need more than the 0 payload fields"));
  TestRequest extra;
  extra.Add(Floats{1});
  CHECK_THAT(refuse(extra), Catch::Contains("need 0 payload fields, there are 1"));
  TestRequest kind;
  AddEntry(&kind, 0, 0)->set_kind(static_cast<v1::PushKind>(77));
  CHECK_THAT(refuse(kind), Catch::Contains("push kind 77 is unknown"));
  TestRequest first;
  first.header.set_sequence(1);
  first.header.set_more(true);
  TestRequest other;
  other.header.set_sequence(2);
  REQUIRE(assembler.Add(first.header, first.payload).ok());
  CHECK_THAT(refuse(other), Catch::Contains("sequence 2 (generation 0) within sequence 1"));
  TestRequest push;
  push.header.mutable_push()->mutable_id()->set_closure(3);
  TestRequest changed = push;
  changed.header.mutable_push()->mutable_id()->set_closure(4);
  REQUIRE(assembler.Add(push.header, push.payload).ok());
  CHECK_THAT(refuse(changed), Catch::Contains("pushes of closures 3 and 4"));
}

TEST_CASE("messages of one push say the same of it") {
  using Change = void (*)(v1::PushPullHeader*);
  const std::vector<std::pair<const char*, Change>> changes = {
      {"differ in attempt", [](auto* h) { h->mutable_push()->set_attempt(2); }},
      {"differ in attempt, timeline", [](auto* h) { h->mutable_push()->set_timeline(2); }},
      {"place", [](auto* h) { h->mutable_push()->set_place(2); }},
      {"weight", [](auto* h) { h->mutable_push()->set_weight(2); }},
      {"step", [](auto* h) { h->mutable_push()->mutable_step()->set_index(2); }},
      {"pushes of closures", [](auto* h) { h->mutable_push()->mutable_id()->set_ordinal(2); }},
      {"watermarks 0 and 2", [](auto* h) { h->set_settled_watermark(2); }},
      {"two terms", [](auto* h) { h->mutable_push()->mutable_sections(0)->set_term(2); }},
      {"pulled versions",
       [](auto* h) { h->mutable_push()->mutable_sections(0)->set_pulled_version(2); }},
      {"pulls of steps 0 and 2", [](auto* h) { h->mutable_pull()->set_step(2); }},
      {"tablet 7 is pulled twice",
       [](auto* h) { h->mutable_pull()->add_sections()->set_tablet(7); }},
  };
  TestRequest request;
  AddEntry(&request, 3, 0)->set_kind(v1::RECORD_ONLY);
  request.header.mutable_pull()->add_sections()->set_tablet(7);
  for (const auto& [message, change] : changes) {
    CAPTURE(message);
    RequestAssembler assembler;
    v1::PushPullHeader other = request.header;
    other.clear_pull();
    REQUIRE(assembler.Add(request.header, {}).ok());
    REQUIRE(assembler.Add(other, {}).ok());
    change(&other);
    const absl::Status status = assembler.Add(other, {});
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::Contains(message));
  }
}

TEST_CASE("the numbers of messages, tablets, sections and entries of a request are limited") {
  RequestAssembler assembler;
  const auto refused = [&](const v1::PushPullHeader& header) {
    absl::Status status;
    int messages = 0;
    while (status.ok() && messages < 2'000'000) {
      status = assembler.Add(header, {});
      ++messages;
    }
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    return fmt::format("{} ({})", std::string(status.message()), messages);
  };
  v1::PushPullHeader header;
  header.set_more(true);
  CHECK(refused(header) == "more than 1048576 messages in one request (1048577)");
  // One tablet in each message, ten times over.
  for (int i = 0; i < 10; ++i) header.mutable_push()->add_sections();
  CHECK(refused(header) == "more than 2097152 sections in one request (209716)");
  header.mutable_push()->clear_sections();
  for (uint32_t i = 0; i < 1025; ++i) header.mutable_push()->add_sections()->set_tablet(i);
  CHECK(refused(header) == "more than 1024 tablets pushed to in one request (1)");
  header.clear_push();
  for (uint32_t i = 0; i < 1025; ++i) header.mutable_pull()->add_sections()->set_tablet(i);
  CHECK(refused(header) == "more than 1024 tablets pulled from in one request (1)");
  header.mutable_pull()->clear_sections();
  v1::PullSection* section = header.mutable_pull()->add_sections();
  for (int i = 0; i < (1 << 16) + 1; ++i) section->add_entries();
  CHECK(refused(header) == "more than 65536 entries of pulls in one request (1)");
  section->mutable_entries()->RemoveLast();
  CHECK(assembler.Add(header, {}).ok());
}

TEST_CASE("a large response is cut into messages that say the same") {
  v1::PushPullResponseHeader header;
  header.set_sequence(8);
  header.set_generation(2);
  header.add_pushes()->set_status(v1::APPLIED);
  std::vector<PayloadSlice> payload;
  size_t entries = 0;
  for (uint32_t tablet = 0; tablet < 3; ++tablet) {
    v1::PullResult* result = header.add_pulls();
    result->set_tablet(tablet);
    result->set_version(tablet + 10);
    for (uint64_t e = 0; e < tablet * 4; ++e, ++entries) {
      result->add_entries()->set_begin(e);
      payload.push_back({BufferRef(), 0, 100});
    }
  }
  const size_t max_bytes =
      GENERATE(size_t{1}, size_t{100}, size_t{250}, size_t{1199}, size_t{5000});
  CAPTURE(max_bytes);
  v1::PushPullResponseHeader whole;
  size_t slices = 0;
  bool more = true;
  v1::PushPullResponseHeader copy = header;
  ForEachChunk(&copy, payload, max_bytes,
               [&](const v1::PushPullResponseHeader& chunk, std::span<PayloadSlice> part) {
                 CHECK(more);
                 more = chunk.more();
                 CHECK(chunk.sequence() == 8);
                 CHECK((part.size() == 1 || part.size() * 100 <= max_bytes || entries == 0));
                 slices += part.size();
                 whole.mutable_pushes()->MergeFrom(chunk.pushes());
                 for (const v1::PullResult& result : chunk.pulls()) {
                   const int n = whole.pulls_size();
                   if (n > 0 && whole.pulls(n - 1).tablet() == result.tablet()) {
                     whole.mutable_pulls(n - 1)->mutable_entries()->MergeFrom(result.entries());
                   } else {
                     *whole.add_pulls() = result;
                   }
                 }
               });
  CHECK(!more);
  CHECK(slices == entries);
  whole.set_sequence(8);
  whole.set_generation(2);
  CHECK(whole.SerializeAsString() == header.SerializeAsString());
}

}  // namespace
}  // namespace cohort::ps_test
