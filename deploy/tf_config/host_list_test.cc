#include "deploy/tf_config/host_list.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

TEST_CASE("a list of hosts in Slurm's form is expanded") {
  const std::pair<const char*, Names> cases[] = {
      {"node1", {"node1"}},
      {"node1,gpu-2.lab", {"node1", "gpu-2.lab"}},
      {"node[01-03,7]", {"node01", "node02", "node03", "node7"}},
      {"node[8-10]", {"node8", "node9", "node10"}},
      {"node[098-101],x", {"node098", "node099", "node100", "node101", "x"}},
      {"r[1-2]n[1,3-4]-ib", {"r1n1-ib", "r1n3-ib", "r1n4-ib", "r2n1-ib", "r2n3-ib", "r2n4-ib"}},
  };
  for (const auto& [list, names] : cases) {
    INFO(list);
    const auto expanded = ExpandHostList(list);
    INFO(expanded.status().ToString());
    REQUIRE(expanded.ok());
    CHECK(*expanded == names);
  }
}

TEST_CASE("a wrong list of hosts is an error that quotes the part") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "\"\" is not the name of a host"},
      {"a,,b", "\"\" is not the name of a host"},
      {"a b", "\"a b\" is not the name of a host"},
      {"node[1-3", "\"node[1-3\" has no \"]\""},
      {"node]1", "\"node]1\" is not the name of a host"},
      {"node[]", "\"\" is not a range of numbers"},
      {"node[3-1]", "\"3-1\" is not a range of numbers, such as 01-03"},
      {"node[-1]", "\"-1\" is not a range"},
      {"node[1-]", "\"1-\" is not a range"},
      {"node[1-2-3]", "\"1-2-3\" is not a range"},
      {"node[a-b]", "\"a-b\" is not a range"},
      {"node[0-99999999999]", "is not a range"},
      {"node[0-999999]", "more than 100000 hosts"},
      {"n[0-9999]m[0-9999]", "more than 100000 hosts"},
      {"a[[1]]", "is not a range"},
  };
  for (const auto& [list, error] : cases) {
    INFO(list);
    CHECK_THAT(ExpandHostList(list).status().ToString(), Contains(error));
  }
}

TEST_CASE("Slurm's tasks per node are expanded") {
  CHECK(*ExpandTasksPerNode("4") == std::vector<int>{4});
  CHECK(*ExpandTasksPerNode("2(x3),1,5(x1)") == std::vector<int>{2, 2, 2, 1, 5});
  for (const char* wrong :
       {"", "x", "2(x", "2(x0)", "2(xa)", "-1", "2,", "2(x999999999)", "2(3)"}) {
    INFO(wrong);
    CHECK_THAT(ExpandTasksPerNode(wrong).status().ToString(), Contains("not a list of tasks"));
  }
}

}  // namespace
}  // namespace cohort
