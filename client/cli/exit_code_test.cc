#include "client/cli/exit_code.h"

#include "gtest/gtest.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

TEST(ExitCode, TellsTheKindsOfFailureApart) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kInvalidArgument, "")), 2);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kInvalidFile, "")), 2);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kNotFound, "")), 3);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kVersionConflict, "")), 4);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kNodeUnavailable, "")), 5);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kStoreLocked, "")), 5);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kDataLoss, "")), 6);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kObjectTooLarge, "")), 7);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kStoreFull, "")), 7);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kQuotaExceeded, "")), 7);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kCancelled, "")), 130);
}

TEST(ExitCode, OfAnErrorWithoutAReasonIsNeverSuccess) {
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), 5);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("x")), 4);
}

}  // namespace
}  // namespace tilekv
