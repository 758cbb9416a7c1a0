#include "common/data/table.h"

#include "common/base/status.h"
#include "common/data/memory_source.h"
#include "common/data/record_graph.h"

namespace cohort {

int Table::NodeOf(const Column& column) const {
  return column.is_in_memory() ? graph->AddSource(memory->Add(column)) : column.node;
}

std::string Table::PlaceOf(uint64_t record, std::string_view column) const {
  return place ? place(record, column) : fmt::format("record {}", record);
}

absl::StatusOr<RowRange> ClampRange(const RowRange& range, uint64_t records) {
  if (range.skip >= records || range.take > records - range.skip) {
    return InvalidArgument("skip {} and take {} exceed the {} records of the source", range.skip,
                           range.take, records);
  }
  return RowRange{range.skip, range.take == 0 ? records - range.skip : range.take};
}

}  // namespace cohort
