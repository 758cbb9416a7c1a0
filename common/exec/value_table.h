#ifndef COHORT_COMMON_EXEC_VALUE_TABLE_H_
#define COHORT_COMMON_EXEC_VALUE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/exec/compiled_program.h"
#include "common/kernels/kernel.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The views of all values of a program: the memory of each value and the current sizes of its axes.
// The constructor allocates everything; afterwards pointers and sizes are written in place.
class ValueTable {
 public:
  struct Memory {
    uint8_t* arena = nullptr;
    uint8_t* lanes = nullptr;                       // one after another
    uint8_t* push_areas = nullptr;                  // one after another
    const std::vector<void*>* constants = nullptr;  // by node; null: where the program has them
    std::vector<void*> variables;                   // whole ones, by variable; empty: elsewhere
  };
  // `compiled` and the memory outlive the table.
  ValueTable(const CompiledProgram& compiled, const Memory& memory);

  const ValueView& view(ValueId v) const { return views_[static_cast<size_t>(v)]; }

  // Sets the run-time count of a symbol (from 1) and the sizes that follow from it.
  void SetCount(int symbol, int64_t count);
  int64_t count(int symbol) const { return counts_[static_cast<size_t>(symbol - 1)]; }
  int64_t capacity(int symbol) const { return capacities_[static_cast<size_t>(symbol - 1)]; }

  // Points these values at memory.
  void SetData(std::span<const ValueId> values, void* data) {
    for (ValueId v : values) views_[static_cast<size_t>(v)].data = data;
  }
  // Points the values of one argument at memory.
  void SetArgument(size_t index, void* data);
  // Points the values that live across the pull at one of the lanes.
  void UseLane(int lane);
  // Points the pushed values at one of the push areas.
  void UsePushArea(int area);
  uint8_t* arena() const { return arena_; }
  uint8_t* lane(int lane) const { return lanes_ + static_cast<size_t>(lane) * lane_bytes_; }
  uint8_t* push_area(int area) const {
    return push_areas_ + static_cast<size_t>(area) * push_area_bytes_;
  }

 private:
  struct BoundedAxis {
    int64_t* size;
    int64_t unit;  // size per count of 1
  };
  struct SymbolUse {
    std::vector<BoundedAxis> axes;
    std::vector<ValueId> values;
  };
  // A value whose memory changes with the lane or the push area.
  struct MovedValue {
    ValueId value;
    size_t offset;
  };

  void AddDims(const CompiledProgram& compiled);
  void AddPlaces(const CompiledProgram& compiled, const Memory& memory);
  void Point(const std::vector<MovedValue>& values, uint8_t* base);

  std::vector<ValueView> views_;
  std::vector<int64_t> dims_;  // the dims of all values, one after another
  std::vector<SymbolUse> symbols_;
  std::vector<int64_t> counts_, capacities_;
  std::vector<std::vector<ValueId>> arguments_;  // values by argument
  std::vector<MovedValue> lane_values_;
  std::vector<MovedValue> pushed_values_;
  uint8_t* const arena_;
  uint8_t* const lanes_;
  const size_t lane_bytes_;
  uint8_t* const push_areas_;
  const size_t push_area_bytes_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_VALUE_TABLE_H_
