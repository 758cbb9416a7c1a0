// The jobs in deploy/examples: they are read, built, and every_key.yaml tells the truth.
#include <google/protobuf/descriptor.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/model/job_defaults.h"
#include "common/model/job_file.h"
#include "common/model/job_test_text.h"
#include "common/model/layers/layer.h"
#include "common/model/model_builder.h"

namespace cohort {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string ExamplePath(const std::string& name) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/deploy/examples/" + name;
}

JobFile ReadExample(const std::string& name) {
  auto job = ReadJobFile(ExamplePath(name));
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

TEST_CASE("the examples are built from what they declare") {
  for (const char* name :
       {"recommender.yaml", "mnist_mlp.yaml", "mnist_cnn.yaml", "census_csv.yaml",
        "fashion_cnn.yaml", "quickdraw.yaml", "keras_json/recommender.yaml",
        "mobilenet_v2/mobilenet.yaml", "imdb_lstm.yaml", "text_cnn.yaml", "segmentation.yaml",
        "dlrm.yaml", "dcn_v2.yaml", "deepfm.yaml", "wide_deep_ctr.yaml", "two_tower.yaml"}) {
    INFO(name);
    const JobFile job = ReadExample(name);
    const auto features = DeclaredFeatures(job.spec);
    REQUIRE(features.status().message() == "");
    const auto model = BuildModel(job.spec, *features, &job.lines);
    REQUIRE(model.status().message() == "");
    CHECK(model->train.pushes.size() == model->variables.size());
  }
}

// Keys of the YAML that differ from the field's name.
std::vector<std::string> KeysOf(const FieldDescriptor* field) {
  const std::string& message = field->containing_type()->name();
  const std::string& name = field->name();
  if (message == "ModelSpec" && name == "layers") return {"sequential", "functional"};
  // The class is the key itself: `- Dense:`; its arguments are compared with its schema.
  if (message == "LayerSpec" && name == "class_name") return {"Dense"};
  if (message == "LayerSpec" && name == "config") return {};
  if (name == "loss_class") return {"loss"};
  if (name == "optimizer_class") return {"optimizer"};
  if (name == "metric_classes") return {"metrics"};
  // Classes are keys themselves; their arguments are compared with their schemas.
  if (name == "source_class") return {"csv", "source"};
  if (name == "transform_class") return {"StringLookup"};
  if (name == "validation_epochs") return {"validation_freq"};
  if (name == "balance_classes") return {"class_weight"};
  if (message == "MetricSpec") return {};
  if (message == "OutputLoss") return {"loss_weights"};
  if (name == "losses") return {"loss"};
  if (name == "labels" && message == "DatasetSpec") return {"label"};
  // Not in job files.
  if (message == "ColumnRead" || (name == "reads" && message == "DatasetSpec")) return {};
  if (name == "of_input") return {};
  return {name};
}

void CollectFields(const Descriptor* message, std::set<const FieldDescriptor*>* fields) {
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    if (!fields->insert(field).second) continue;
    if (field->is_map() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    CollectFields(field->message_type(), fields);
  }
}

bool NamesKey(const std::string& text, const std::string& key) {
  for (size_t at = text.find(key + ":"); at != std::string::npos;
       at = text.find(key + ":", at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before == ' ' || before == '\n' || before == '{') return true;
  }
  return false;
}

TEST_CASE("every_key.yaml is a job, and names every field of JobSpec") {
  const JobFile job = ReadExample("every_key.yaml");
  std::set<const FieldDescriptor*> fields;
  CollectFields(v1::JobSpec::descriptor(), &fields);
  CHECK(fields.size() > 75);
  for (const FieldDescriptor* field : fields) {
    for (const std::string& key : KeysOf(field)) {
      INFO(field->full_name() << ", key " << key);
      CHECK(NamesKey(job.yaml, key));
    }
  }
}

TEST_CASE("every_key.yaml has every layer with every argument") {
  const JobFile job = ReadExample("every_key.yaml");
  for (const ClassSchema* layer : Layers().Schemas()) {
    INFO(layer->name);
    CHECK(job.yaml.find("- " + layer->name) != std::string::npos);
    for (const Argument& argument : layer->arguments) {
      INFO(argument.name);
      CHECK((argument.planned || NamesKey(job.yaml, argument.name)));
    }
  }
}

TEST_CASE("every_key.yaml has every source and every transform with every argument") {
  const JobFile job = ReadExample("every_key.yaml");
  for (const SchemaSet* classes :
       std::initializer_list<const SchemaSet*>{&Sources(), &Transforms()}) {
    for (const ClassSchema* schema : classes->Schemas()) {
      INFO(schema->name);
      CHECK(NamesKey(job.yaml, schema->name));
      for (const Argument& argument : schema->arguments) {
        INFO(argument.name);
        CHECK((argument.planned || NamesKey(job.yaml, argument.name)));
      }
    }
  }
}

TEST_CASE("docs/job_file.md has every key") {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream in(std::string(source == nullptr ? "." : source) + "/docs/job_file.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  std::set<const FieldDescriptor*> fields;
  CollectFields(v1::JobSpec::descriptor(), &fields);
  for (const FieldDescriptor* field : fields) {
    for (const std::string& key : KeysOf(field)) {
      INFO(field->full_name() << ", key " << key);
      const bool is_class = page.find("### " + key) != std::string::npos;
      CHECK((is_class || page.find("`" + key + "`") != std::string::npos));
    }
  }
}

// "path: default" of the lines `key: value  # default X. ...` of every_key.yaml.
std::map<std::string, std::string> DocumentedDefaults(const std::string& yaml) {
  std::map<std::string, std::string> defaults;
  std::vector<std::pair<size_t, std::string>> stack;  // indentation, key
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    const size_t colon = line.find(':');
    if (indent == std::string::npos || line[indent] == '#' || line[indent] == '-') continue;
    if (colon == std::string::npos || line.find_first_of(" {[") < colon - 0 + indent) {
      if (line.find(' ', indent) < colon) continue;
    }
    while (!stack.empty() && stack.back().first >= indent) stack.pop_back();
    stack.emplace_back(indent, line.substr(indent, colon - indent));
    const size_t at = line.find("# default ");
    if (at == std::string::npos) continue;
    std::string path;
    for (const auto& [i, key] : stack) path += (path.empty() ? "" : ".") + key;
    std::string value = line.substr(at + 10);
    value = value.substr(0, value.find_first_of(" ;:"));
    while (!value.empty() && value.back() == '.') value.pop_back();
    if (value.size() > 1 && value.back() == ',') value.pop_back();
    defaults[path] = value;
  }
  return defaults;
}

// Returns the value at a path as the YAML would write it; "" if the path is not a scalar.
std::string ValueAt(const Message& message, const std::string& path) {
  const size_t dot = path.find('.');
  const auto* field = message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
  if (field == nullptr || field->is_repeated()) return "";
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return dot == std::string::npos
                 ? ""
                 : ValueAt(reflection->GetMessage(message, field), path.substr(dot + 1));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}", reflection->GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", reflection->GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string name = reflection->GetEnum(message, field)->name();
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return name;
    }
    default:
      return "";
  }
}

TEST_CASE("the defaults in every_key.yaml are those of the reader") {
  constexpr std::string_view kBare = R"(
model: {sequential: [Flatten]}
compile: {loss: mse}
data: {train: {csv: {path: a.csv}, label: y}}
)";
  const auto bare = ParseJob(kBare, "bare.yaml");
  REQUIRE(bare.ok());
  int compared = 0;
  for (const auto& [path, value] : DocumentedDefaults(ReadExample("every_key.yaml").yaml)) {
    // For lists, and for defaults that depend on other keys, the comment uses words.
    if (path.find('[') != std::string::npos || value == "that" || value == "none") continue;
    const std::string actual = ValueAt(bare->spec, path);
    if (path == "model.name" || actual.empty()) continue;
    INFO(path);
    CHECK(actual == value);
    ++compared;
  }
  CHECK(compared >= 25);
}

}  // namespace
}  // namespace cohort
