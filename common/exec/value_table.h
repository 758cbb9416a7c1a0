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
  // `compiled` outlives the table.
  ValueTable(const CompiledProgram& compiled, uint8_t* arena, uint8_t* push_area);

  const ValueView& view(ValueId v) const { return views_[static_cast<size_t>(v)]; }

  // Sets the run-time count of a symbol (from 1) and the sizes that follow from it.
  void SetCount(int symbol, int64_t count);
  int64_t count(int symbol) const { return counts_[static_cast<size_t>(symbol - 1)]; }

  // Points the values of one argument at memory.
  void SetArgument(size_t index, void* data);
  // Points the pushed values at one of the two push areas.
  void UsePushArea(int area);
  uint8_t* push_area(int area) const {
    return push_area_ + static_cast<size_t>(area) * push_area_bytes_;
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
  struct DoubledValue {
    ValueId value;
    size_t offset;
  };

  void AddDims(const CompiledProgram& compiled);
  void AddPlaces(const CompiledProgram& compiled, uint8_t* arena);

  std::vector<ValueView> views_;
  std::vector<int64_t> dims_;  // the dims of all values, one after another
  std::vector<SymbolUse> symbols_;
  std::vector<int64_t> counts_;
  std::vector<std::vector<ValueId>> arguments_;  // values by argument
  std::vector<DoubledValue> doubled_;
  uint8_t* const push_area_;
  const size_t push_area_bytes_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_VALUE_TABLE_H_
