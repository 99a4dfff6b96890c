// SPDX-License-Identifier: Apache-2.0
#include "report/build_log.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

std::string rendered(const Event& event, bool verbose = true) {
  std::FILE* file = std::tmpfile();
  {
    Log log(file, file);
    log.set_verbose(verbose);
    BuildLog(log).on(event);
  }
  std::rewind(file);
  std::string text;
  char line[1024];
  while (std::fgets(line, sizeof(line), file) != nullptr)
    text += std::string(line).substr(22);  // less the time stamp
  std::fclose(file);
  return text;
}

// The id of a runner, a hash of its name.
std::string id(const std::string& runner) {
  const std::string line = rendered(RunnerStarted{"L", runner});
  return line.substr(line.find("[0x") + 3, 8);
}

TEST(BuildLog, FusionsReadAsInTensorRT) {
  EXPECT_EQ(
      rendered(FusionApplied{"ConvReluFusion", "Conv_0", "Relu_1"}),
      "[V] [TRT] Running: ConvReluFusion on Conv_0\n[V] [TRT] ConvReluFusion: Fusing Conv_0 with Relu_1\n");
  EXPECT_EQ(
      rendered(LayerRemoved{"PoolingErasure", "/avgpool/AveragePool"}),
      "[V] [TRT] Running: PoolingErasure on /avgpool/AveragePool\n[V] [TRT] Removing /avgpool/AveragePool\n");
  EXPECT_EQ(rendered(StageFinished{"Original", 32}), "[V] [TRT] Original: 32 layers\n");
  EXPECT_EQ(rendered(StageFinished{"vertical fusions", 9}), "[V] [TRT] After vertical fusions: 9 layers\n");
}

TEST(BuildLog, TuningReadsAsInTensorRT) {
  EXPECT_EQ(rendered(CostsStarted{"Conv_0 + Relu_1"}),
            "[V] [TRT] =============== Computing costs for Conv_0 + Relu_1\n");
  EXPECT_EQ(rendered(FormatsStarted{{"Float(150528,50176,224,1)"}, {"Float(193600,3025,55,1)"}}),
            "[V] [TRT] *************** Autotuning format combination: Float(150528,50176,224,1) -> "
            "Float(193600,3025,55,1) "
            "***************\n");
  EXPECT_EQ(id("R"), id("R"));
  EXPECT_NE(id("R"), id("OnednnConvolution"));
  EXPECT_EQ(rendered(RunnerStarted{"Conv_0", "OnednnConvolution"}),
            "[V] [TRT] --------------- Timing Runner: Conv_0 (OnednnConvolution[0x" +
                id("OnednnConvolution") + "])\n");
  EXPECT_EQ(rendered(TacticTimed{"Conv_0", "jit", 0x1a, 0.0521752}),
            "[V] [TRT] Tactic Name: jit Tactic: 0x000000000000001a Time: 0.0521752\n");
  EXPECT_EQ(rendered(RunnerFinished{"Conv_0", "R", 0.5, 0x1a, 0.05}),
            "[V] [TRT] Conv_0 (R[0x" + id("R") +
                "]) profiling completed in 0.5 seconds. Fastest Tactic: 0x000000000000001a "
                "Time: 0.05\n");
  EXPECT_EQ(rendered(RunnerSkipped{"Conv_0", "R", "3-D only"}),
            "[V] [TRT] Skipping R: No valid tactics for Conv_0 (3-D only)\n");
  EXPECT_EQ(rendered(TacticChosen{"Conv_0", "R", "jit", 0x1a, 0.05}),
            "[V] [TRT] >>>>>>>>>>>>>>> Chose Runner Type: R Tactic: 0x000000000000001a\n");
  EXPECT_EQ(
      rendered(ReformatAdded{"Reformatted Input Tensor 0 to Conv_0", "Float(1)", "Half(1)"}),
      "[V] [TRT] Adding reformat layer: Reformatted Input Tensor 0 to Conv_0 from Float(1) to Half(1)\n");
  EXPECT_EQ(rendered(MemoryPlanned{1, 2, 3}, false),
            "[I] [TRT] Total Scratch Memory: 3 bytes\n"
            "[I] [TRT] Max Scratch Memory: 3 bytes\n"
            "[I] [TRT] Total Activation Memory: 1 bytes\n"
            "[I] [TRT] Total Weights Memory: 2 bytes\n");
  EXPECT_EQ(rendered(EngineGenerated{8.62539}, false),
            "[I] [TRT] Engine generation completed in 8.62539 seconds.\n");
}

TEST(BuildLog, VerboseLinesNeedVerbose) {
  EXPECT_EQ(rendered(CostsStarted{"x"}, false), "");
}

TEST(BuildLog, TheModelBlock) {
  ModelParsed model;
  model.file = "a.onnx";
  model.ir_version = 8;
  model.opset_version = 17;
  const std::string text = rendered(model);
  EXPECT_NE(text.find("[I] [TRT] Input filename:   a.onnx\n"), std::string::npos);
  EXPECT_NE(text.find("[I] [TRT] ONNX IR version:  0.0.8\n"), std::string::npos);
  EXPECT_NE(text.find("[I] [TRT] Opset version:    17\n"), std::string::npos);
  EXPECT_TRUE(
      text.starts_with("[I] [TRT] ----------------------------------------------------------------\n"));
}

TEST(ProgressBar, ShowsShareAndEstimate) {
  EXPECT_EQ(progress_bar({"tuning", 41, 82, 11.2}),
            "[############------------]  50%  tuning  41/82  ~12 s left");
  EXPECT_EQ(progress_bar({"tuning", 0, 0, -1}), "[------------------------]   0%  tuning  0/1");
}

}  // namespace
}  // namespace lathe
