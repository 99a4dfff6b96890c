// SPDX-License-Identifier: Apache-2.0
//
// What each flag of the table does to the options: a flag that is read and then forgotten is found here.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "arguments/flag.h"
#include "arguments/options.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

enum class Effect {
  Sets,         // the options differ from the default
  SetsAndSays,  // and a notice says what of it has no effect, or what to use today
  Says,         // a notice alone: it would only affect speed, or is of older releases
  Refuses,      // ends the run: it would change numbers or files
  NeedsMore,    // an error that names the flag that has to be there, too
  Nothing,      // asks for what is the default here
};

// All names of trtexec 8.0 to 11.4 and our own, but --onnx and --help, each with a value that is not the
// default; written out, so that a row lost from the table is missed.
const std::map<Effect, std::string>& effects() {
  static const std::map<Effect, std::string> kEffects = {
      {Effect::Sets,
       "--infStreams=2 --allowGPUFallback --avgRuns=1 --avgTiming=1 --batchPart=1 "
       "--best --bf16 --buildTime=1 --builderOptimizationLevel=1 --calib=1 --checkNumerics --cpuIsa=avx2 "
       "--cpuThreads=1 --device=1 --disablePass=1 --dumpAfter=1 --dumpLayerInfo "
       "--dumpOptimizationProfile --dumpOutput --dumpProfile --dumpRawBindingsToFile --dynamicPlugins=1 "
       "--enablePluginOverride "
       "--duration=1 --errorOnTimingCacheMiss --exportLayerInfo=1 --exportOutput=1 "
       "--exportProfile=1 --exportSummary=1 --exportTimes=1 --exposeDMA --failOnFallback --fastLoad --fp16 "
       "--fp8 "
       "--getPlanVersionOnly --idleTime=1 --imagePreprocess=unit --ignoreParsedPluginLibs "
       "--inputIOFormats=fp32:chw --inputLengths=x:1 "
       "--int8 --iterations=1 --keepState=a:b --layerOutputTypes=a:fp16 --layerPrecisions=a:fp16 "
       "--loadEngine=1 --loadInputs=1 --maxTactics=1 "
       "--memPoolSize=workspace:16 --monitorMemory --noBuilderCache --noCompilationCache "
       "--noDataTransfers --noTF32 --noWinograd --outputIOFormats=fp32:chw --percentile=1 "
       "--precisionConstraints=obey "
       "--profilingVerbosity=none --refit --refitFromOnnx=1 --saveEngine=1 --separateProfileRun --shapes=1 "
       "--setPluginsToSerialize=1 --staticPlugins=1 --trustEngine "
       "--skipInference --sleepTime=1 --stopAfter=1 --stripAllWeights --stripWeights --stronglyTyped "
       "--tacticSources=-CUDNN "
       "--tempfileControls=in_memory:deny --threads --timeDeserialize --timingCacheFile=1 "
       "--useCudaGraph --useProfile=1 --useSpinWait --verbose --verifyPasses --warmUp=1 --weightless "},
      {Effect::SetsAndSays,
       "--allocationStrategy=profile --allowWeightStreaming --buildOnly --cpuOnly --directIO "
       "--excludeLeanRuntime --heuristic "
       "--maxAuxStreams=1 --maxShapes=1 --minShapes=1 --nvtxMode=none --optShapes=1 "
       "--persistentCacheRatio=1 --plugins=1 --preview=+profileSharing0806 --useManagedMemory --vc "
       "--versionCompatible --workspace=1 "},
      {Effect::Says,
       "--asyncFileReader --decomposableAttentions=1 --explicitBatch "
       "--explicitPrecision --l2LimitForTiling=1 --minTiming=1 --pi "
       "--pluginInstanceNorm --streams=1 --tempdir=1 --tilingOptimizationLevel=1 "},
      {Effect::Refuses,
       "--accuracyAlgorithm=1 --accuracyThreshold=1 --adjustForDLA --atol=1 --batch=1 "
       "--buildDLAStandalone --calibProfile=1 --computeCapabilities=1 --consistency "
       "--continue --deferWeightsLoading --deploy=1 --distributiveIndependence "
       "--dlaWorkspaceAllocationStrategy=sharedStatic --dryRun --dumpCheckerBlob "
       "--dumpKernelText --dumpRefit --greenContext=1 "
       "--hardwareCompatibilityLevel=ampere+ --helpBuildRoute=1 --int4 --layerDeviceTypes=1 "
       "--leanDLLPath=1 --loadCheckerBlob=1 "
       "--loadRefOutputs=1 --markDebug=1 --markUnfusedTensorsAsDebugTensors --maxBatch=1 "
       "--maxShapesCalib=1 --minShapesCalib=1 --model=1 --optShapesCalib=1 --output=1 "
       "--refPair=1 --reference "
       "--remoteAutoTuningConfig=1 --remoteConfig=1 --reportCapabilityDLA "
       "--restricted --rtol=1 --rtxCudaGraphStrategy=1 --runtimeCacheFile=1 "
       "--runtimePlatform=WindowsAMD64 --safe --safetyPlugins=1 --saveAllDebugTensors=1 "
       "--saveAllEngines --saveDebugTensors=1 --setBuildRoute=1 "
       "--sparsity=force --specializeStrategyDS=1 "
       "--timeRefit --tuneBuildRouteFile=1 --tuneBuildRoutes=1 "
       "--tuningCacheFile=1 --tuningResultFile=1 --tuningSearch=1 --tuningTimeOut=1 --uff=1 "
       "--uffInput=1 --uffNHWC --uint8AsymmetricQuantizationDLA --useDLACore=1 --useGpu "},
      {Effect::NeedsMore, "--budget=1 --profile=0 --useRuntime=lean --weightStreamingBudget=1 "},
      {Effect::Nothing, "--includeDataTransfers --nativeInstanceNorm --ni --noCudaGraph --noSpinWait "}};
  return kEffects;
}

bool same(const Options& a, const Options& b) {
  return a.model == b.model && a.build == b.build && a.system == b.system && a.inference == b.inference &&
         a.reporting == b.reporting;
}

Effect effect_of(const std::string& word) {
  try {
    const Options options = parse_options({"--onnx=a", word});
    if (!options.refusals.empty()) return Effect::Refuses;
    const bool sets = !same(options, parse_options({"--onnx=a"})), says = !options.notices.empty();
    if (sets) return says ? Effect::SetsAndSays : Effect::Sets;
    return says ? Effect::Says : Effect::Nothing;
  } catch (const Error&) {
    return Effect::NeedsMore;
  }
}

TEST(FlagEffects, EveryFlagDoesWhatItIsListedFor) {
  std::set<std::string> seen;
  for (const auto& [effect, words] : effects()) {
    std::istringstream stream(words);
    for (std::string word; stream >> word;) {
      EXPECT_EQ(effect_of(word), effect) << word;
      seen.insert(word.substr(0, word.find('=')));
    }
  }
  for (const Flag& flag : all_flags()) {
    if (flag.section == Section::Help || flag.name == "--onnx") continue;
    EXPECT_TRUE(seen.contains(std::string(flag.name))) << flag.name << " is not in the list of effects";
  }
}

}  // namespace
}  // namespace lathe::cli
