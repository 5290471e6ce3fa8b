// Models of a store by prefix, as people write their names.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// "NAME" or "NS/NAME", with "@NUMBER" where it is not 0.
std::string ModelText(const std::string& ns, const std::string& name, uint64_t number = 0);
// The same for records of versions.
std::string VersionText(const v1::VersionInfo& version);
// Tags, joined by commas; `latest` among them where it is.
std::string TagsText(const v1::VersionInfo& version);

// Calls `visit` for every model whose displayed name (ModelText) begins with `prefix`, page by
// page.
absl::Status VisitModels(Context& context, KvStore& store, const std::string& prefix,
                         bool with_deleted,
                         const std::function<absl::Status(const v1::ModelInfo&)>& visit);

// The version that the name means; NOT_FOUND tells a missing model from a missing version.
absl::StatusOr<v1::VersionInfo> ResolveModel(Context& context, KvStore& store,
                                             const ModelName& name, bool with_deleted = false);

Json VersionJson(const v1::VersionInfo& version);

}  // namespace tilekv
