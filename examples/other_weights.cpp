// SPDX-License-Identifier: Apache-2.0
//
// An engine file without weights, which gets them back, and then others: other_weights model.onnx
// stripped.engine
#include <chrono>
#include <cstring>
#include <filesystem>

#include "sample.h"

using namespace sample;

int main(int argc, char** argv) {
  return run(argc, argv, 2, "other_weights model.onnx stripped.engine",
             [](const std::vector<std::string>& words) {
               ConsoleLogger logger;
               Builder builder(logger);
               const Network network = builder.parse_onnx(words[0]);
               BuilderConfig config;
               config.optimization_level = 1;
               const Engine built = builder.build(network, config);
               built.save_stripped(words[1]);
               std::cout << built.serialize().size() << " bytes with weights, "
                         << std::filesystem::file_size(words[1]) << " without\n";

               const TensorInfo input = built.inputs().at(0);
               const HostTensor x = filled(built.opt_dims(input.name), 0.5F);
               const auto first_of = [&](const Engine& engine) {
                 return engine.create_context().run({x})[0].data<float>()[0];
               };
               const auto start = std::chrono::steady_clock::now();
               Refitter refitter(logger, words[1]);
               refitter.set_from_onnx(words[0]);
               const Engine again = refitter.refit();
               std::cout << "refitted in "
                         << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
                         << " s: first "
                         << "element " << first_of(built) << " and " << first_of(again) << "\n";

               // Others, on a stream, while the engine goes on working.
               for (const WeightsInfo& weights : refitter.weights()) {
                 if (weights.type != DataType::Float) continue;
                 refitter.set(weights.name, filled(weights.dims, 0));
               }
               Stream stream;
               const std::shared_future<Engine> zeros = refitter.refit(stream);
               std::cout << "meanwhile " << first_of(again) << ", with weights of zero "
                         << first_of(zeros.get()) << "\n";
             });
}
