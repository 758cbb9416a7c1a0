#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_ROUTES_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_ROUTES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/graph/program.h"
#include "common/tensor/hashed_rows.h"

namespace cohort::v1 {
class Routes;
}

namespace cohort {

// A contiguous range of a variable's rows.
struct ShardRoute {
  uint32_t shard = 0;  // its number in the job
  uint64_t row_begin = 0;
  uint64_t rows = 0;
  int tablet = 0;  // index into ProgramRoutes::tablets

  bool operator==(const ShardRoute&) const = default;
};

struct VariableRoute {
  std::string name;
  std::vector<ShardRoute> shards;    // in order of row_begin, without gaps
  std::optional<HashedRows> hashed;  // the shards share the rows by hash
  uint64_t rows = 0;                 // axis 0; 1 if the variable is a scalar
  uint64_t row_elements = 0;         // product of the other axes
  uint64_t element_bytes = 0;
  bool reads_average = false;  // VariableDecl::reads_average

  uint64_t row_bytes() const { return row_elements * element_bytes; }
  // Where a row within [0, rows) is: an index into `shards`, and its number there.
  HashedRows::Place PlaceOf(uint64_t row) const;
};

struct TabletRoute {
  uint32_t tablet = 0;  // its number in the job
  uint64_t term = 0;
  int server = 0;      // index into ProgramRoutes::servers
  uint32_t shard = 0;  // one of its shards, which an entry without a gradient names
};

struct ServerRoute {
  uint32_t ps = 0;
  uint64_t incarnation = 0;
  std::string address;
  std::string unix_socket;  // "" = none
  std::string host_id;
  bool compact = false;  // v1::PsRoute.compact
};

// v1::Routes as one program sees them: its variables, the tablets that hold their shards, and the
// servers of these tablets. Immutable.
struct ProgramRoutes {
  // Errors: InvalidArgument that names the variable, shard or tablet if the routes and the program
  // do not fit (unknown variable, other shape, missing rows, a tablet without a server).
  static absl::StatusOr<std::shared_ptr<const ProgramRoutes>> Make(
      const v1::Routes& routes, std::span<const VariableDecl> variables);

  // True if shards and tablets are cut the same way, so that a request made for one can be sent by
  // the other: only servers and terms may differ.
  bool SameShards(const ProgramRoutes& other) const;

  uint64_t timeline = 0;
  std::vector<VariableRoute> variables;  // by the program's variable index
  std::vector<TabletRoute> tablets;      // those of this program, by number
  std::vector<ServerRoute> servers;      // those of the tablets, by ps
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_ROUTES_H_
