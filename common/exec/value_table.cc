#include "common/exec/value_table.h"

#include "common/graph/op_registry.h"

namespace cohort {

ValueTable::ValueTable(const CompiledProgram& compiled, const Memory& memory)
    : views_(compiled.program.values.size()),
      symbols_(compiled.program.symbols.size()),
      counts_(compiled.program.symbols.size(), -1),
      arguments_(compiled.program.arguments.size()),
      arena_(memory.arena),
      lanes_(memory.lanes),
      lane_bytes_(compiled.lane_bytes),
      push_areas_(memory.push_areas),
      push_area_bytes_(compiled.push_area_bytes) {
  for (const Symbol& symbol : compiled.program.symbols) capacities_.push_back(symbol.capacity);
  AddDims(compiled);
  AddPlaces(compiled, memory);
  for (size_t s = 0; s < counts_.size(); ++s) SetCount(static_cast<int>(s) + 1, 0);
  UseLane(0);
  UsePushArea(0);
}

void ValueTable::AddDims(const CompiledProgram& compiled) {
  const Program& program = compiled.program;
  size_t total = 0;
  for (const ValueType& type : program.values) total += type.dims.size();
  dims_.reserve(total);  // views point into it
  for (size_t v = 0; v < views_.size(); ++v) {
    const ValueType& type = program.values[v];
    ValueView& view = views_[v];
    view.dtype = type.dtype;
    view.rank = static_cast<int>(type.dims.size());
    view.dims = dims_.data() + dims_.size();
    view.elements = 1;
    for (const Dim& dim : type.dims) {
      dims_.push_back(dim.size);
      view.elements *= dim.size;
      if (!dim.bounded()) continue;
      SymbolUse& use = symbols_[static_cast<size_t>(dim.symbol - 1)];
      const int64_t capacity = program.symbols[static_cast<size_t>(dim.symbol - 1)].capacity;
      use.axes.push_back({&dims_.back(), dim.size / capacity});
      use.values.push_back(static_cast<ValueId>(v));
    }
  }
}

void ValueTable::AddPlaces(const CompiledProgram& compiled, const Memory& memory) {
  for (size_t v = 0; v < views_.size(); ++v) {
    const ValueLocation& location = compiled.locations[v];
    switch (location.in) {
      case Location::kNowhere:
        break;
      case Location::kArena:
        views_[v].data = memory.arena + location.offset;
        break;
      case Location::kLane:
        lane_values_.push_back({static_cast<ValueId>(v), location.offset});
        break;
      case Location::kPushed:
        pushed_values_.push_back({static_cast<ValueId>(v), location.offset});
        break;
      case Location::kArgument:
        arguments_[static_cast<size_t>(location.index)].push_back(static_cast<ValueId>(v));
        break;
      case Location::kVariable:
        if (memory.variables.empty()) break;
        views_[v].data = memory.variables[static_cast<size_t>(location.index)];
        break;
      case Location::kConstant: {
        if (memory.constants != nullptr) {
          views_[v].data = (*memory.constants)[static_cast<size_t>(location.index)];
          break;
        }
        const Node& node = compiled.program.nodes[static_cast<size_t>(location.index)];
        // Kernels only read their inputs.
        views_[v].data = const_cast<void*>(TensorAttr(node, "value")->raw());
        break;
      }
    }
  }
}

void ValueTable::SetCount(int symbol, int64_t count) {
  int64_t& current = counts_[static_cast<size_t>(symbol - 1)];
  if (current == count) return;
  current = count;
  const SymbolUse& use = symbols_[static_cast<size_t>(symbol - 1)];
  for (const BoundedAxis& axis : use.axes) *axis.size = axis.unit * count;
  for (ValueId v : use.values) {
    ValueView& view = views_[static_cast<size_t>(v)];
    view.elements = NumElements(view.shape());
  }
}

void ValueTable::SetArgument(size_t index, void* data) { SetData(arguments_[index], data); }

void ValueTable::UseLane(int lane) { Point(lane_values_, this->lane(lane)); }

void ValueTable::UsePushArea(int area) { Point(pushed_values_, push_area(area)); }

void ValueTable::Point(const std::vector<MovedValue>& values, uint8_t* base) {
  for (const MovedValue& v : values) views_[static_cast<size_t>(v.value)].data = base + v.offset;
}

}  // namespace cohort
