// SPDX-License-Identifier: Apache-2.0
#include "provider.h"

#include <algorithm>

#include "graph_model.h"
#include "partition.h"

namespace lathe::onnxruntime_ep {
namespace {

// What ONNX Runtime holds of a compiled partition.
struct ComputeInfo : OrtNodeComputeInfo {
  ComputeInfo(EngineMaker& maker, const std::string& model, std::vector<std::string> inputs,
              std::vector<std::string> outputs)
      : OrtNodeComputeInfo{}, graph(maker, model, std::move(inputs), std::move(outputs)) {
    ort_version_supported = kApiVersion;
    CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept -> OrtStatus* {
      *state = self;
      return nullptr;
    };
    Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) noexcept -> OrtStatus* {
      return guarded([&] { static_cast<ComputeInfo*>(self)->graph.run(*context); });
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) noexcept {};
  }
  CompiledGraph graph;
};

void claim_nodes(Provider& provider, const OrtGraph& graph, OrtEpGraphSupportInfo& support) {
  // Bodies are part of the node that they belong to.
  if (answer_of<const OrtNode*>(graph, ort().Graph_GetParentNode) != nullptr) return;
  const std::lock_guard lock(provider.maker.building);
  OrtNodeFusionOptions fusion{};
  fusion.ort_version_supported = kApiVersion;
  fusion.drop_constant_initializers = true;  // an engine has its own weights
  for (const NodeGroup& group : supported_groups(graph, provider.maker.builder, provider.logger))
    check(ep_api().EpGraphSupportInfo_AddNodesToFuse(&support, group.data(), group.size(), &fusion));
}

std::vector<std::string> names_of(const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> names;
  for (const OrtValueInfo* value : values) names.push_back(name_of(value));
  return names;
}

std::unique_ptr<ComputeInfo> compile(Provider& provider, const OrtGraph& graph, const OrtNode& fused) {
  const GraphModel model = write_model(graph);
  return std::make_unique<ComputeInfo>(provider.maker, model.bytes, names_of(inputs_of(fused)),
                                       names_of(outputs_of(fused)));
}

}  // namespace

void SessionLogger::log(v1::Severity severity, std::string_view text) {
  constexpr OrtLoggingLevel levels[] = {ORT_LOGGING_LEVEL_FATAL, ORT_LOGGING_LEVEL_ERROR,
                                        ORT_LOGGING_LEVEL_WARNING, ORT_LOGGING_LEVEL_INFO,
                                        ORT_LOGGING_LEVEL_VERBOSE};
  const std::string line = "Lathe: " + std::string(text);
  OrtStatus* status = ort().Logger_LogMessage(logger_, levels[static_cast<size_t>(severity)], line.c_str(),
                                              ORT_TSTR("lathe"), 0, "lathe");
  if (status != nullptr) ort().ReleaseStatus(status);  // a line that is lost is no reason to stop
}

Provider::Provider(const OrtSessionOptions& session, const OrtLogger* session_logger)
    : OrtEp{}, logger(session_logger), maker(logger, read_options(session, kProviderName)) {
  ort_version_supported = kApiVersion;
  GetName = [](const OrtEp*) noexcept -> const char* { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph,
                     OrtEpGraphSupportInfo* support) noexcept -> OrtStatus* {
    return guarded([&] { claim_nodes(*static_cast<Provider*>(self), *graph, *support); });
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, size_t count,
               OrtNodeComputeInfo** infos, OrtNode**) noexcept -> OrtStatus* {
    std::fill_n(infos, count, nullptr);
    OrtStatus* status = guarded([&] {
      for (size_t i = 0; i < count; ++i)
        infos[i] = compile(*static_cast<Provider*>(self), *graphs[i], *fused[i]).release();
    });
    if (status != nullptr)
      for (size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(std::exchange(infos[i], nullptr));
    return status;
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
  };
}

}  // namespace lathe::onnxruntime_ep
