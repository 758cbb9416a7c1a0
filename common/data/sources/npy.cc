// Arrays in NumPy's format: numpy.save.
#include <filesystem>

#include "common/base/status.h"
#include "common/data/arrays/array_source.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenNpy(const Config& config,
                                                            const SourceContext& context) {
  std::vector<NpyArray> arrays;
  std::vector<std::string> names;
  std::string fingerprint;
  for (const std::string& path : config.Strings("files")) {
    COHORT_ASSIGN_OR_RETURN(NpyArray array, OpenNpyFile({path, config.String("url"), ""},
                                                        context.options, &fingerprint));
    arrays.push_back(std::move(array));
    names.push_back(std::filesystem::path(path).stem().string());
  }
  COHORT_ASSIGN_OR_RETURN(names, NamesOfColumns(config.Strings("columns"), std::move(names)));
  return MakeArraySource(std::move(arrays), std::move(names), std::move(fingerprint));
}

}  // namespace

SourceClass NpySource() {
  return {.schema =
              {.name = "npy",
               .doc = "Arrays of `numpy.save`, a column each: their rows (axis 0) are the "
                      "records. Rows are read when they are used.",
               .arguments = {Strings("files", "Files below `COHORT_DATA_DIR`, or absolute."),
                             Strings("columns",
                                     "Names, in the order of the files; none: those of the "
                                     "files without `.npy`.")
                                 .Optional(),
                             String("url", "Shown in the error if a file is missing.").Optional()}},
          .no_record_arguments = {"url"},
          .open = OpenNpy};
}

}  // namespace cohort
