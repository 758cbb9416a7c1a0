#include "chief/job/row_report.h"

#include <catch2/catch.hpp>
#include <memory>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

std::shared_ptr<const v1::TaskFigures> Figures(uint64_t pulled, int64_t hot) {
  auto figures = std::make_shared<v1::TaskFigures>();
  v1::RowFigures* const of = figures->add_rows();
  of->set_variable("ids/embeddings");
  of->set_rows(1000);
  of->set_bytes(128000);
  of->set_pulled(pulled);
  of->set_made(7);
  of->add_hot()->set_key(hot);
  return figures;
}

TEST_CASE("the report has the shares of servers and the figures of variables") {
  CoreState state;
  CHECK(RowFiguresOf(state).empty());
  state.server_reports.resize(2);
  CHECK(RowFiguresOf(state).empty());
  state.server_reports[0].figures = Figures(840, 5);
  state.server_reports[1].figures = Figures(160, -9);
  const ClusterRowFigures figures = RowFiguresOf(state);
  CHECK(RowsLine(figures) == "1000 pulled, 0 pushed; by server 84 %, 16 %: skew 1.68");
  CHECK(
      RowsTable(figures) ==
      "Variable        Rows  Bytes      Pulled  Pushed  Made  Evicted  Not admitted  Hottest keys\n"
      "ids/embeddings  2000  250.0 KiB  1000    0       14    0        0             -9 5\n");
}

}  // namespace
}  // namespace cohort
