#include "common/model/callbacks/callback.h"

#include "common/model/callbacks/callback_list.h"

namespace cohort {

#define COHORT_DECLARE(Name) CallbackClass Name##Callback();
COHORT_CALLBACKS(COHORT_DECLARE)
#undef COHORT_DECLARE

const ClassRegistry<CallbackClass>& Callbacks() {
#define COHORT_DEFINE(Name) Name##Callback(),
  static const auto& callbacks = *new ClassRegistry<CallbackClass>(
      "callback", SchemaSet::Spelling::kExact, "", {COHORT_CALLBACKS(COHORT_DEFINE)});
#undef COHORT_DEFINE
  return callbacks;
}

const SchemaSet& CallbackSchemas() { return Callbacks(); }

}  // namespace cohort
