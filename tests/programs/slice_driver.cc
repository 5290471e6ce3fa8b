// Answers selections of tensors for a test that compares them with NumPy's. Not installed.
//
//   slice_driver STORE MODEL
//
// Each line of standard input is one question, its fields separated by tabs:
//
//   slice TENSOR TEXT | shard TENSOR RANK WORLD AXIS | rows TENSOR INDEX,INDEX,... | whole TENSOR
//
// Each answer is a line "ok BYTES SIZE SIZE ..." (the result's length and shape) and that many
// bytes, or a line "error REASON TEXT".
#include <charconv>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "client/connect.h"
#include "fmt/format.h"
#include "kvstore/base/allocator.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_reader.h"

namespace tilekv {
namespace {

struct Answer {
  Shape shape;
  std::string content;
};

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> fields(1);
  for (char c : text) {
    if (c == separator) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

int64_t Number(const std::string& text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TILEKV_CHECK(error == std::errc() && end == text.data() + text.size());
  return number;
}

MutableBytes Whole(std::string& content) {
  return {reinterpret_cast<uint8_t*>(content.data()), content.size()};
}

class Driver {
 public:
  explicit Driver(ModelReader& reader) : reader_(reader) {}

  absl::StatusOr<Answer> Ask(const std::vector<std::string>& question) {
    TILEKV_CHECK(question.size() >= 2);
    const std::string& kind = question[0];
    TILEKV_ASSIGN_OR_RETURN(entry_, reader_.Find(question[1]));
    if (kind == "whole") return ReadWhole();
    if (kind == "slice") return ReadSlice(ResolveSlice(question.at(2), entry_->shape));
    if (kind == "shard") {
      return ReadSlice(ShardSlice(entry_->shape, static_cast<uint64_t>(Number(question.at(2))),
                                  static_cast<uint64_t>(Number(question.at(3))),
                                  Number(question.at(4))));
    }
    TILEKV_CHECK(kind == "rows");
    return ReadRows(question.at(2));
  }

 private:
  absl::StatusOr<Answer> Room(const Shape& shape) const {
    TILEKV_ASSIGN_OR_RETURN(uint64_t bytes, TensorBytes(entry_->dtype, shape));
    return Answer{shape, std::string(bytes, '\0')};
  }

  absl::StatusOr<Answer> ReadWhole() {
    TILEKV_ASSIGN_OR_RETURN(Answer answer, Room(entry_->shape));
    TILEKV_RETURN_IF_ERROR(reader_.ReadTensor(entry_->name, Whole(answer.content)));
    return answer;
  }

  absl::StatusOr<Answer> ReadSlice(absl::StatusOr<ResolvedSlice> slice) {
    TILEKV_RETURN_IF_ERROR(slice.status());
    TILEKV_ASSIGN_OR_RETURN(Answer answer, Room(slice->result_shape));
    TILEKV_RETURN_IF_ERROR(reader_.ReadSlice(entry_->name, *slice, Whole(answer.content)));
    return answer;
  }

  absl::StatusOr<Answer> ReadRows(const std::string& list) {
    std::vector<int64_t> rows;
    if (!list.empty()) {
      for (const std::string& index : Split(list, ',')) rows.push_back(Number(index));
    }
    Shape shape = entry_->shape;
    if (shape.empty()) shape.push_back(0);  // has no rows: the reader says so
    shape[0] = rows.size();
    TILEKV_ASSIGN_OR_RETURN(Answer answer, Room(shape));
    TILEKV_RETURN_IF_ERROR(reader_.ReadRows(entry_->name, rows, Whole(answer.content)));
    return answer;
  }

  ModelReader& reader_;
  std::shared_ptr<const TensorEntry> entry_;
};

void Print(const absl::StatusOr<Answer>& answer) {
  std::string line;
  if (answer.ok()) {
    line = fmt::format("ok {}", answer->content.size());
    for (uint64_t size : answer->shape) line += fmt::format(" {}", size);
    line += '\n';
    line += answer->content;
  } else {
    absl::string_view text = answer.status().message();
    line = fmt::format("error {} {}\n", ReasonName(GetReason(answer.status())),
                       std::string(text.data(), text.size()));
  }
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

absl::Status Run(const char* store_uri, const char* model) {
  ConnectOptions options;
  options.open.read_only = true;
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> store, Connect(store_uri, options));
  TILEKV_ASSIGN_OR_RETURN(ModelName name, ModelName::Parse(model));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader, ModelReader::Open(*store, name));
  Driver driver(*reader);
  for (std::string line; std::getline(std::cin, line);) Print(driver.Ask(Split(line, '\t')));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tilekv

int main(int argc, char** argv) {
  tilekv::TuneAllocator();
  TILEKV_CHECK(argc == 3);
  absl::Status status = tilekv::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", tilekv::ErrorText(status).c_str());
  return 1;
}
