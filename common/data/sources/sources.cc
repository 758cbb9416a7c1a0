// The registry of sources.
#include "common/data/source_class.h"
#include "common/data/sources/source_list.h"

namespace cohort {

#define COHORT_DECLARE(name) SourceClass name##Source();
COHORT_SOURCES(COHORT_DECLARE)
#undef COHORT_DECLARE

ClassRegistry<SourceClass>& Sources() {
#define COHORT_CALL(name) name##Source(),
  static auto& sources = *new ClassRegistry<SourceClass>("source", SchemaSet::Spelling::kAnyCase,
                                                         "", {COHORT_SOURCES(COHORT_CALL)});
#undef COHORT_CALL
  return sources;
}

}  // namespace cohort
