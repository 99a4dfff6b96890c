// SPDX-License-Identifier: Apache-2.0
//
// What ONNX Runtime calls when it loads this library, and when a session chooses the provider.
#include <string>

#include "provider.h"

namespace lathe::onnxruntime_ep {
namespace {

struct Factory : OrtEpFactory {
  Factory() : OrtEpFactory{}, version(v1::version()) {
    ort_version_supported = kApiVersion;
    OrtEpFactory::GetName = [](const OrtEpFactory*) noexcept -> const char* { return kProviderName; };
    OrtEpFactory::GetVendor = [](const OrtEpFactory*) noexcept -> const char* { return "Lathe"; };
    OrtEpFactory::GetVendorId = [](const OrtEpFactory*) noexcept -> uint32_t { return 0; };
    OrtEpFactory::GetVersion = [](const OrtEpFactory* self) noexcept -> const char* {
      return static_cast<const Factory*>(self)->version.c_str();
    };
    OrtEpFactory::GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                           size_t count, OrtEpDevice** found, size_t most,
                                           size_t* found_count) noexcept -> OrtStatus* {
      *found_count = 0;
      return guarded([&] {
        for (size_t i = 0; i < count && *found_count < most; ++i) {
          if (ort().HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
          check(ep_api().CreateEpDevice(self, devices[i], nullptr, nullptr, &found[*found_count]));
          ++*found_count;
        }
      });
    };
    OrtEpFactory::CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*,
                                const OrtKeyValuePairs* const*, size_t, const OrtSessionOptions* session,
                                const OrtLogger* logger, OrtEp** provider) noexcept -> OrtStatus* {
      *provider = nullptr;
      return guarded([&] { *provider = new Provider(*session, logger); });
    };
    OrtEpFactory::ReleaseEp = [](OrtEpFactory*, OrtEp* provider) noexcept {
      delete static_cast<Provider*>(provider);
    };
    // Everything lies in the memory that ONNX Runtime's own CPU provider uses.
    OrtEpFactory::CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                       OrtAllocator** allocator) noexcept -> OrtStatus* {
      *allocator = nullptr;
      return nullptr;
    };
    OrtEpFactory::ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    OrtEpFactory::CreateDataTransfer = [](OrtEpFactory*,
                                          OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
      *transfer = nullptr;
      return nullptr;
    };
    OrtEpFactory::IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }
  std::string version;
};

}  // namespace
}  // namespace lathe::onnxruntime_ep

using namespace lathe::onnxruntime_ep;

extern "C" ORT_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                   OrtEpFactory** factories, size_t most, size_t* count) {
  const OrtApi* api = base->GetApi(kApiVersion);
  if (api == nullptr) {
    // Every version has a table that can at least say so.
    const std::string text = "Lathe's execution provider needs ONNX Runtime 1." +
                             std::to_string(kApiVersion) + " or newer; this is " + base->GetVersionString();
    return base->GetApi(1)->CreateStatus(ORT_FAIL, text.c_str());
  }
  apis() = {api, api->GetEpApi()};
  *count = 0;
  return guarded([&] {
    if (most < 1) throw StatusError(ORT_INVALID_ARGUMENT, "no room for Lathe's factory");
    factories[0] = new Factory();
    *count = 1;
  });
}

extern "C" ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
