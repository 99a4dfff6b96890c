// SPDX-License-Identifier: Apache-2.0
//
// Readings of the device while it ran. What a device does not tell is missing or null in each of them.
#include "explorer/core/readers.h"

#include "base/json.h"

namespace lathe::explorer {

HardwareFile read_hardware(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  HardwareFile file;
  file.text = root.at("text").text();
  const JsonAt samples = root.at("samples");
  for (size_t i = 0; i < samples.size(); ++i) {
    const JsonAt at = samples.item(i);
    HardwareSample sample;
    sample.at_ms = at.at("at_ms").number();
    const auto take = [&](const char* key, std::optional<double>& value) {
      if (const auto found = at.find(key)) value = found->number();
    };
    take("core_mhz", sample.core_mhz);
    take("memory_mhz", sample.memory_mhz);
    take("temperature_c", sample.temperature_c);
    take("power_w", sample.power_w);
    take("others_percent", sample.others_percent);
    if (const auto throttled = at.find("throttled")) {
      if (!throttled->json().is_boolean()) throttled->fail("true or false");
      sample.throttled = throttled->json().get<bool>();
    }
    file.samples.push_back(sample);
  }
  return file;
}

}  // namespace lathe::explorer
