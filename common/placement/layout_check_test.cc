#include "common/placement/layout_check.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// A variable of 5 rows in two shards on two tablets, and a scalar.
v1::Layout Good() {
  v1::Layout layout;
  const auto variable = [&](const char* name, std::initializer_list<int64_t> dims) {
    v1::VariableSpec* spec = layout.add_variables();
    spec->set_name(name);
    spec->set_dtype(v1::FLOAT32);
    spec->mutable_dims()->Add(dims.begin(), dims.end());
    spec->set_trainable(true);
  };
  const auto shard = [&](uint32_t number, uint32_t of, uint64_t begin, uint64_t rows,
                         uint32_t tablet) {
    v1::ShardSpec* spec = layout.add_shards();
    spec->set_shard(number);
    spec->set_variable(of);
    spec->set_row_begin(begin);
    spec->set_rows(rows);
    spec->set_tablet(tablet);
  };
  variable("w", {5, 3});
  variable("scale", {});
  shard(0, 0, 0, 3, 0);
  shard(1, 0, 3, 2, 1);
  shard(2, 1, 0, 1, 1);
  for (uint32_t i = 0; i < 2; ++i) {
    layout.add_tablets()->set_tablet(i);
    layout.mutable_tablets(static_cast<int>(i))->set_ps(i);
  }
  return layout;
}

TEST_CASE("a layout holds every row once") {
  CHECK(CheckLayout(Good()).ok());
  struct Case {
    const char* message;
    std::function<void(v1::Layout*)> change;
  };
  const Case cases[] = {
      {"row 2 of 'w' is in two shards", [](auto* l) { l->mutable_shards(1)->set_row_begin(2); }},
      {"row 2 of 'w' is in no shard", [](auto* l) { l->mutable_shards(0)->set_rows(2); }},
      {"row 3 of 'w' is in no shard", [](auto* l) { l->mutable_shards()->DeleteSubrange(1, 1); }},
      {"row 0 of 'scale' is in no shard", [](auto* l) { l->mutable_shards()->RemoveLast(); }},
      {"shard 1 has 9 rows from 3", [](auto* l) { l->mutable_shards(1)->set_rows(9); }},
      {"from 18446744073709551615", [](auto* l) { l->mutable_shards(1)->set_row_begin(~0ull); }},
      {"shard 0 occurs twice", [](auto* l) { l->mutable_shards(1)->set_shard(0); }},
      {"shard 1 belongs to variable 7, and there are 2",
       [](auto* l) { l->mutable_shards(1)->set_variable(7); }},
      {"shard 1 is on tablet 9", [](auto* l) { l->mutable_shards(1)->set_tablet(9); }},
      {"tablet 0 occurs twice", [](auto* l) { l->mutable_tablets(1)->set_tablet(0); }},
      {"partitioned by hash, and shard 0 of it has 2 instead of 3",
       [](auto* l) {
         l->mutable_variables(0)->set_hashed_rows(true);
         l->mutable_shards(0)->set_rows(2);
         l->mutable_shards(1)->set_row_begin(2);
         l->mutable_shards(1)->set_rows(3);
       }},
      {"which has 0", [](auto* l) { l->mutable_variables(0)->set_dims(0, -5); }},
  };
  for (const Case& c : cases) {
    v1::Layout layout = Good();
    c.change(&layout);
    const absl::Status status = CheckLayout(layout);
    INFO(c.message);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::Contains(c.message));
  }
}

TEST_CASE("the bytes of a server are those of its shards and their slots") {
  const v1::Layout layout = Good();
  // Bytes of a row with `slots` slots.
  const auto with = [](size_t slots) {
    return [slots](const v1::VariableSpec& variable) -> size_t {
      return (1 + slots) * (variable.dims_size() > 1 ? 3 * 4 : 4);
    };
  };
  CHECK(BytesOfServer(layout, 0, with(0)) == 3 * 3 * 4);
  CHECK(BytesOfServer(layout, 1, with(2)) == 3 * (2 * 3 * 4 + 4));
  CHECK(BytesOfServer(layout, 7, with(2)) == 0);
}

}  // namespace
}  // namespace cohort
