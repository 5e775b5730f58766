// Names in the folder of a run; docs/runs.md, docs/checkpoints.md and docs/fine-tuning.md say what the files hold.
#pragma once

namespace toy::runs {

/// @{
/// The run: its events, what was left of a log that could not be read, every option with its value, the graph of a
/// step, and how it ended.
inline constexpr const char *kEventsFile = "events.jsonl", *kPreviousEventsFile = "events.previous.jsonl",
                            *kConfigFile = "config.json", *kFlowFile = "flow.json", *kFinishedFile = "finished.json";
/// @}
/// @{
/// What it makes: a model or an adapter, each with averaged weights, too.
inline constexpr const char *kModelFile = "model.gguf", *kAverageFile = "model-ema.gguf",
                            *kAdapterFile = "adapter.gguf", *kAdapterAverageFile = "adapter-ema.gguf";
/// @}
/// @{
/// The model's second name, and the folder that it is in.
inline constexpr const char *kSecondName = "weights/latest.gguf", *kSecondFolder = "weights";
/// @}
/// The adapter for PEFT, and what is in there.
inline constexpr const char *kPeftFolder = "peft",
                            *kPeftFiles[] = {"adapter_config.json", "adapter_model.safetensors", "chat_template.jinja"};
/// The folder of its checkpoints, in which the model is called kWeightsFile.
inline constexpr const char *kCheckpointsFolder = "checkpoints", *kWeightsFile = "weights.gguf";

}  // namespace toy::runs
