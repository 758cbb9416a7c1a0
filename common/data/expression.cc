// muParser parses and computes. It knows only names of letters and digits, so columns become v0, v1
// and so on before.
#include "common/data/expression.h"

#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Number = mu::value_type;

Number Least(const Number* values, int count) { return *std::min_element(values, values + count); }
Number Greatest(const Number* values, int count) {
  return *std::max_element(values, values + count);
}
Number Sign(Number x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Number IsNan(Number x) { return std::isnan(x) ? 1 : 0; }
Number IsFinite(Number x) { return std::isfinite(x) ? 1 : 0; }
Number Not(Number x) { return x == 0 ? 1 : 0; }
Number Where(Number condition, Number yes, Number no) { return condition != 0 ? yes : no; }
Number Clip(Number x, Number low, Number high) { return std::min(std::max(x, low), high); }
// As in Python, the result has the sign of the divisor.
Number Modulo(Number a, Number b) {
  const Number rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

struct Function {
  const char* name;
  Number (*of_one)(Number);
};
constexpr Function kFunctions[] = {
    {"abs", std::fabs},    {"arccos", std::acos},     {"arcsin", std::asin},
    {"arctan", std::atan}, {"ceil", std::ceil},       {"cos", std::cos},
    {"cosh", std::cosh},   {"exp", std::exp},         {"expm1", std::expm1},
    {"floor", std::floor}, {"isfinite", IsFinite},    {"isnan", IsNan},
    {"log", std::log},     {"log10", std::log10},     {"log1p", std::log1p},
    {"log2", std::log2},   {"round", std::nearbyint}, {"sign", Sign},
    {"sin", std::sin},     {"sinh", std::sinh},       {"sqrt", std::sqrt},
    {"tan", std::tan},     {"tanh", std::tanh},       {"trunc", std::trunc}};
constexpr const char* kOtherFunctions[] = {"arctan2", "clip", "max", "min", "pow", "where"};

std::vector<std::string> FunctionNames() {
  std::vector<std::string> names(std::begin(kOtherFunctions), std::end(kOtherFunctions));
  for (const Function& function : kFunctions) names.emplace_back(function.name);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsFunction(std::string_view name) {
  const auto names = FunctionNames();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void DefineFunctions(mu::Parser* parser) {
  parser->ClearFun();
  parser->ClearConst();
  for (const Function& function : kFunctions) parser->DefineFun(function.name, function.of_one);
  parser->DefineFun("max", Greatest);
  parser->DefineFun("min", Least);
  parser->DefineFun("pow", static_cast<Number (*)(Number, Number)>(std::pow));
  parser->DefineFun("arctan2", static_cast<Number (*)(Number, Number)>(std::atan2));
  parser->DefineFun("where", Where);
  parser->DefineFun("clip", Clip);
  parser->DefineOprt("%", Modulo, mu::prMUL_DIV);
  // As in Python, `not a > b` is `not (a > b)`.
  parser->DefineInfixOprt("!", Not, mu::prLOGIC);
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlankOrLineEnd(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Translates a text for muParser, and finds its columns.
class Translation {
 public:
  explicit Translation(std::string text) : text_(std::move(text)) {}

  std::vector<std::string> columns;
  std::vector<Expression::Comparison> comparisons;
  std::string formula;  // columns are v0, v1..., comparisons w0, w1...

  std::string_view text() const { return text_; }

  // What muParser says, with the names and the place of the text.
  absl::Status ErrorOf(const mu::Parser::exception_type& error) const {
    std::string what = error.GetMsg().substr(0, error.GetMsg().find(" at position"));
    if (what.ends_with(" found")) what.resize(what.size() - std::string_view(" found").size());
    for (size_t i = columns.size(); i-- > 0;) {
      const std::string name = fmt::format("\"v{}\"", i);
      const size_t at = what.find(name);
      if (at != what.npos) what.replace(at, name.size(), fmt::format("\"{}\"", columns[i]));
    }
    size_t at = text_.size();
    for (const auto& [of_formula, of_text] : places_) {
      if (static_cast<int>(of_formula) <= error.GetPos() + 1) at = of_text;
    }
    return InvalidArgument("\"{}\": at character {}: {}", PrintableLine(text_), at + 1,
                           PrintableLine(what));
  }

  absl::Status Run() {
    while (SkipSpaces()) {
      begin_ = at_;
      const char c = text_[at_];
      if (IsLetter(c) || c == '`') {
        COHORT_RETURN_IF_ERROR(Name());
      } else if (IsDigit(c) || (c == '.' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))) {
        COHORT_RETURN_IF_ERROR(NumberText());
      } else if (c == '\'' || c == '"') {
        return Error("a word is compared with a column: country == 'US'");
      } else {
        COHORT_RETURN_IF_ERROR(Operator());
      }
    }
    if (formula.empty()) return Error("it is empty");
    return absl::OkStatus();
  }

 private:
  bool SkipSpaces() {
    while (at_ < text_.size() && IsBlankOrLineEnd(text_[at_])) ++at_;
    return at_ < text_.size();
  }

  absl::Status Error(const std::string& what) const {
    return InvalidArgument("\"{}\": at character {}: {}", PrintableLine(text_), at_ + 1, what);
  }

  bool Skip(std::string_view what) {
    if (!text().substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  // A column, a function, or an operator of letters.
  absl::Status Name() {
    const size_t begin = at_;
    std::string name;
    const bool quoted = Skip("`");
    if (quoted) {
      const size_t end = text_.find('`', at_);
      if (end == text_.npos) return Error("the backquote is never closed");
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else {
      // A dot within a name belongs to it: user.age is a column of JSON lines.
      while (at_ < text_.size() &&
             (IsLetter(text_[at_]) || IsDigit(text_[at_]) ||
              (text_[at_] == '.' && at_ + 1 < text_.size() && IsLetter(text_[at_ + 1])))) {
        name.push_back(text_[at_++]);
      }
      if (name == "and" || name == "or") {
        compared_.back() = false;
        return Add(name == "and" ? "&&" : "||");
      }
      if (name == "not") return Add("!");
      if (name == "true" || name == "True") return Add("1");
      if (name == "false" || name == "False") return Add("0");
      SkipSpaces();
      if (at_ < text_.size() && text_[at_] == '(') {
        if (IsFunction(name)) return Add(name);
        at_ = begin;
        return Error(fmt::format("there is no function \"{}\"; there are {}", PrintableLine(name),
                                 fmt::join(FunctionNames(), ", ")));
      }
    }
    return Column(std::move(name));
  }

  absl::Status Column(std::string name) {
    SkipSpaces();
    const size_t before = at_;
    const bool equal = Skip("==");
    if (equal || Skip("!=")) {
      SkipSpaces();
      const char quote = at_ < text_.size() ? text_[at_] : '\0';
      if (quote == '\'' || quote == '"') {
        const size_t end = text_.find(quote, at_ + 1);
        if (end == text_.npos) return Error("the quote is never closed");
        std::string word = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        // The parentheses keep `not` and arithmetic away from the inside.
        COHORT_RETURN_IF_ERROR(Add(fmt::format("(w{}=={})", comparisons.size(), equal ? 1 : 0)));
        comparisons.push_back({std::move(name), std::move(word)});
        return absl::OkStatus();
      }
    }
    at_ = before;
    auto found = std::find(columns.begin(), columns.end(), name);
    const auto number = found - columns.begin();
    if (found == columns.end()) columns.push_back(std::move(name));
    return Add(fmt::format("v{}", number));
  }

  absl::Status NumberText() {
    const size_t begin = at_;
    while (at_ < text_.size() && (IsDigit(text_[at_]) || text_[at_] == '.')) ++at_;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      size_t exponent = at_ + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && IsDigit(text_[exponent])) {
        while (exponent < text_.size() && IsDigit(text_[exponent])) ++exponent;
        at_ = exponent;
      }
    }
    return Add(text_.substr(begin, at_ - begin));
  }

  absl::Status Operator() {
    for (const std::string_view compare : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!Skip(compare)) continue;
      if (compared_.back()) {
        at_ -= compare.size();
        return Error("compare two values at a time: `a < b and b < c`");
      }
      compared_.back() = true;
      return Add(compare);
    }
    if (Skip("**")) return Add("^");
    if (Skip("&&") || Skip("||")) {
      compared_.back() = false;
      return Add(text_.substr(at_ - 2, 2));
    }
    const char c = text_[at_];
    if (c == '&' || c == '|' || c == '~') return Error("write `and`, `or`, `not`");
    if (c == '=') return Error("two values are compared with `==`");
    if (std::string_view("+-*/%^(),?:!").find(c) == std::string_view::npos) {
      return Error(
          fmt::format("\"{}\" is no part of an expression; a column whose name is no "
                      "identifier stands in backquotes",
                      PrintableLine(text_.substr(at_, 1))));
    }
    if (c == '(') compared_.push_back(false);
    if (c == ')' && compared_.size() > 1) compared_.pop_back();
    if (c == ',' || c == '?' || c == ':') compared_.back() = false;
    ++at_;
    return Add(text_.substr(at_ - 1, 1));
  }

  absl::Status Add(std::string_view part) {
    // muParser knows a function by the parenthesis that follows its name at once.
    const size_t end = formula.find_last_not_of(' ');
    if (part == "(" && end != std::string::npos &&
        (IsLetter(formula[end]) || IsDigit(formula[end]))) {
      formula.resize(end + 1);
      places_.emplace_back(formula.size(), begin_);
      formula += "( ";
      return absl::OkStatus();
    }
    places_.emplace_back(formula.size(), begin_);
    formula += fmt::format(" {} ", part);
    return absl::OkStatus();
  }

  const std::string text_;
  size_t at_ = 0;
  size_t begin_ = 0;                               // where the current part begins
  std::vector<std::pair<size_t, size_t>> places_;  // where parts begin: in the formula, in the text
  // By open parenthesis: there is a comparison already. muParser would compare its result.
  std::vector<bool> compared_ = {false};
};

// A parser with its variables.
struct BoundParser {
  mu::Parser parser;
  std::vector<Number> values;
};

// Errors: InvalidArgument. Leaves the parser with its bytecode.
absl::StatusOr<std::unique_ptr<BoundParser>> MakeParser(const Translation& translation) {
  const size_t columns = translation.columns.size();
  const size_t comparisons = translation.comparisons.size();
  auto bound = std::make_unique<BoundParser>();
  bound->values.assign(columns + comparisons, 1);
  try {
    DefineFunctions(&bound->parser);
    for (size_t i = 0; i < columns; ++i) {
      bound->parser.DefineVar(fmt::format("v{}", i), &bound->values[i]);
    }
    for (size_t i = 0; i < comparisons; ++i) {
      bound->parser.DefineVar(fmt::format("w{}", i), &bound->values[columns + i]);
    }
    bound->parser.SetExpr(translation.formula);
    (void)bound->parser.Eval();
    if (bound->parser.GetNumResults() != 1) {
      return InvalidArgument("\"{}\": has {} results, separated by commas; one is needed",
                             PrintableLine(translation.text()), bound->parser.GetNumResults());
    }
  } catch (const mu::Parser::exception_type& error) {
    return translation.ErrorOf(error);
  }
  return bound;
}

}  // namespace

// Each thread that computes takes a parser, because its variables are memory of the parser.
struct Expression::Parsers {
  explicit Parsers(Translation of) : translation(std::move(of)) {}

  const Translation translation;
  Mutex mu;
  std::vector<std::unique_ptr<BoundParser>> idle ABSL_GUARDED_BY(mu);

  std::unique_ptr<BoundParser> Take() {
    {
      MutexLock lock(&mu);
      if (!idle.empty()) {
        auto parser = std::move(idle.back());
        idle.pop_back();
        return parser;
      }
    }
    return *MakeParser(translation);  // as the first one
  }
  void GiveBack(std::unique_ptr<BoundParser> parser) {
    MutexLock lock(&mu);
    idle.push_back(std::move(parser));
  }
};

absl::StatusOr<Expression> Expression::Parse(std::string_view text) {
  Translation translation{std::string(text)};
  COHORT_RETURN_IF_ERROR(translation.Run());
  COHORT_ASSIGN_OR_RETURN(auto first, MakeParser(translation));
  Expression expression;
  expression.columns_ = translation.columns;
  expression.comparisons_ = translation.comparisons;
  if (expression.columns_.empty() && expression.comparisons_.empty()) {
    return InvalidArgument("\"{}\": names no column", PrintableLine(text));
  }
  expression.parsers_ = std::make_shared<Parsers>(std::move(translation));
  expression.parsers_->GiveBack(std::move(first));
  return expression;
}

void Expression::Compute(std::span<const double* const> inputs, std::span<double> out) const {
  std::unique_ptr<BoundParser> bound = parsers_->Take();
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t c = 0; c < inputs.size(); ++c) bound->values[c] = inputs[c][i];
    out[i] = bound->parser.Eval();
  }
  parsers_->GiveBack(std::move(bound));
}

}  // namespace cohort
