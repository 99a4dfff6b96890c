// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/gpu_kernel.h"
#include "backend/cuda/device/h200_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "backend/cuda/device/libraries.h"
#include "base/error.h"
#include "base/file.h"

namespace lathe::cuda {
namespace {

TEST(DeviceProperties, SurviveTheirFile) {
  DeviceProperties properties;
  properties.name = "a GPU";
  properties.multiprocessors = 7;
  EXPECT_EQ(DeviceProperties::from_json(properties.to_json(), "test"), properties);
}

TEST(DeviceProperties, NameWhatIsMissing) {
  try {
    DeviceProperties::from_json(R"({"name": "a GPU", "major": "nine"})", "gpu.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gpu.json: property 'major' of the GPU is missing or of another type");
  }
}

TEST(GpuKernel, CompilesWithoutAGpu) {
  const auto device = h200();
  ASSERT_NE(device->libraries->nvrtc, nullptr) << device->libraries->missing.at(0);
  MemoryBlobStore blobs;
  const std::string source = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }";
  const auto cubin = device->kernels->compiled(*device, blobs, "twice", source, {});
  ASSERT_GT(cubin.size(), 100u);
  EXPECT_EQ(device->kernels->compiled(*device, blobs, "twice", source, {}).data(), cubin.data());
  const GpuKernel kernel(*device, blobs, "twice", source);
  EXPECT_THROW(kernel.launch({}, nullptr, nullptr), Error);
}

TEST(KernelCache, CompilesASourceOnceForAllWhoAsk) {
  const auto device = h200();
  const std::string source = "extern \"C\" __global__ void thrice(float* x) { x[threadIdx.x] *= 3; }";
  const std::string broken = "extern \"C\" __global__ void broken() { nonsense(); }";
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      device->kernels->compile_ahead(*device, "thrice", source);
      EXPECT_THROW(device->kernels->compile_ahead(*device, "broken", broken), Error);
    });
  for (std::thread& thread : threads) thread.join();
  MemoryBlobStore first, second;
  const auto a = device->kernels->compiled(*device, first, "thrice", source, {});
  const auto b = device->kernels->compiled(*device, second, "thrice", source, {});
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  EXPECT_THROW(device->kernels->compiled(*device, first, "broken", broken, {}), Error);
}

TEST(GpuKernel, ShowsTheSourceThatDoesNotCompile) {
  const auto device = h200();
  try {
    compile_source(*device, "broken", "extern \"C\" __global__ void broken() { nonsense(); }");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("broken.cu"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::cuda
