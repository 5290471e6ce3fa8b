// For tests: one store on a simulated disk, from its making on, through random operations and any
// number of ends: losses of power at any change of the disk or named crash point, ends of the
// process, restarts. A plain map goes along and says what must be there. What was acknowledged is
// there, what was deleted stays deleted; what was in progress has happened whole or not at all. A
// reader sees before the next writer what that one sees.
//
// A seed decides everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/object/tree.h"
#include "kvstore/simulated_store.h"

namespace tilekv {

// For one thread, and one at a time: it hears of the crash points of the whole program.
class StoreLife {
 public:
  explicit StoreLife(uint64_t seed);
  ~StoreLife();

  // So many operations and a last look. False: something is wrong; see problem().
  bool Run(int operations);

  // Syncs of such calls and paths are left out from now on.
  void LeaveOut(std::function<bool(const std::string& call, const std::string& path)> which) {
    store_.disk.leave_out = std::move(which);
  }

  const std::string& problem() const { return problem_; }          // the first; empty: none
  const std::string& trace() const { return trace_; }              // all that happened, in text
  const std::set<std::string>& points() const { return points_; }  // crash points on its way
  int ends() const { return ends_; }
  int looks() const { return looks_; }  // of readers before a writer

 private:
  static constexpr uint64_t kMaxObjectBytes = 256 * kKiB;  // larger values are chunked

  // What can be seen: "value KEY", "version MODEL/NUMBER", "tag MODEL/TAG", and what is there.
  using State = std::map<std::string, std::string>;
  // Happens as a whole or not at all; none: gone.
  using Change = std::map<std::string, std::optional<std::string>>;

  // A content named by its seed and length, so that a state is short to print.
  struct Content {
    uint64_t seed = 0;
    uint64_t length = 0;
    std::string Name() const;
    std::string Text() const;
  };
  struct Model {
    std::vector<Content> tiles;
    std::string Name() const;
    Tree Root() const;
  };
  struct Version {
    std::string model;
    uint64_t number = 0;
    std::string what;  // "live ..." or "deleted ..."
    bool tagged = false;
    bool IsLive() const { return what.rfind("live", 0) == 0; }
  };

  static void Apply(const Change& change, State& state);
  static std::string VersionName(const std::string& model, uint64_t number);
  void Fail(const std::string& what);

  // --- ends ---
  // The power goes before one of the next changes, or at one of the next named points.
  void ArmEnd(uint64_t most_changes);
  // Opens the store, ends on the way included, and settles what was in progress.
  bool Restart();
  // What a reader sees before the writer opens; none: there is no whole store yet.
  std::optional<State> LookAsReader();

  // --- comparing ---
  // Whether an operation was acknowledged. If not, its changes are open until the next opening.
  bool Acknowledged(const absl::Status& status, const std::vector<Change>& changes);
  // Compares what is there with what must be, once it is known which open changes happened.
  bool Compare();
  void Settle(const State& seen);
  std::string DifferenceTo(const State& seen) const;
  // Reads everything.
  absl::StatusOr<State> See();
  absl::Status SeeModel(const std::string& model, State& seen);

  // --- operations ---
  void DoSomething();
  void RestartOrCheck();
  void Put();
  void Delete();
  void BatchPut();
  void CommitModel();
  absl::StatusOr<uint64_t> Upload(const std::string& name, const Model& model,
                                  const std::string& root, bool commit, const std::string& tag);
  void SetTag();
  void RemoveTag();
  void DeleteVersion();
  void Undelete();
  void Collect();
  void Copy();
  void Move();
  void Recode();
  void Repair();
  void SpoilAndHeal();
  void Heal();
  bool HasVersions(const std::string& model) const;
  void SettleMove();
  // A key and its content, which lies in a payload file of its own; empty: there is none.
  std::pair<std::string, std::string> SomeValueInAFile();
  // Of at most so many bytes.
  Content SomeContent(uint64_t most_bytes = kMaxObjectBytes);
  std::string SomeKey();
  // Some version that fits, if there is one.
  std::optional<Version> SomeVersion(const std::function<bool(const Version&)>& fits);

  const std::vector<std::string> models_ = {"a", "b"};
  const std::vector<std::string> tags_ = {"prod", "test"};
  SeededRandom random_;
  SimulatedStore store_;
  bool made_ = false;  // the store; acknowledged
  State state_;
  std::vector<Change> open_changes_;
  std::map<std::string, std::string> names_;  // of contents
  std::map<std::string, uint64_t> next_{{"a", 1}, {"b", 1}};
  std::map<std::string, int64_t> deleted_at_;  // when, by name of version
  std::string moved_to_;                       // by a move that may have happened
  // Values whose copies are bad on the disk until they are stored again, by key.
  std::map<std::string, std::string> spoiled_;
  uint64_t points_left_ = 0;
  int ends_ = 0;
  int looks_ = 0;
  std::set<std::string> points_;
  std::string trace_;
  std::string problem_;
};

}  // namespace tilekv
