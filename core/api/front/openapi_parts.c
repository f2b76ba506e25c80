/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that several answers have: components of /openapi.json. */
#include "core/api/front/openapi_answers.h"

#include <stddef.h>

#define TOOL_CALL "{id:s type:'function' function:{name:s arguments:s}}"
#define SAMPLERS                                                                         \
  "n_predict:i max_tokens:i seed:i temperature:n top_k:i top_p:n min_p:n "               \
  "repeat_penalty:n repeat_last_n:i presence_penalty:n frequency_penalty:n "             \
  "ignore_eos:b stream:b n_probs:i timings_per_token:b stop:[s] "                        \
  "logit_bias:[{bias:n|0 token:i}] typical_p:n top_n_sigma:n dynatemp_range:n "          \
  "dynatemp_exponent:n xtc_probability:n xtc_threshold:n dry_multiplier:n dry_base:n "   \
  "dry_allowed_length:i dry_penalty_last_n:i mirostat:i mirostat_tau:n mirostat_eta:n "  \
  "adaptive_target:n adaptive_decay:n"

#define LIST(ITEM) "{object:'list' data:[" ITEM "] first_id:s|0 last_id:s|0 has_more:b}"
#define CHOICE_END "finish_reason:s|0 stop_reason?:s|i|0 token_ids?:[i]|0"
#define LINE_ENDS                                                                        \
  "done_reason?:s total_duration?:i load_duration?:i prompt_eval_count?:i "              \
  "prompt_eval_duration?:i eval_count?:i eval_duration?:i logprobs?:[TokenLogprob]"
#define SLOT_ANSWER                                                                      \
  "index:i content:s tokens:[i] id_slot:i stop:b tokens_predicted:i tokens_evaluated:i " \
  "completion_probabilities?:[Probability]"

const struct lls_openapi_part lls_openapi_parts[] = {
    /* OpenAI's */
    {"Usage",
     "{prompt_tokens:i completion_tokens:i total_tokens:i "
     "prompt_tokens_details?:{cached_tokens:i} "
     "completion_tokens_details?:{reasoning_tokens:i accepted_prediction_tokens:i "
     "rejected_prediction_tokens:i}}"},
    {"PromptUsage", "{prompt_tokens:i total_tokens:i}"},
    {"Timings",
     "{cache_n:i prompt_n:i prompt_ms:n prompt_per_token_ms:n prompt_per_second:n "
     "predicted_n:i predicted_ms:n predicted_per_token_ms:n predicted_per_second:n}"},
    {"Progress", "{total:i cache:i processed:i time_ms:i}"},
    {"Metrics", "{time_to_first_token_ms:n generation_time_ms:n queue_time_ms:n "
                "mean_itl_ms?:n tokens_per_second?:n}"},
    {"TokenLogprob", "{token:s logprob:n bytes:[i] "
                     "top_logprobs:[{token:s logprob:n bytes:[i]}]}"},
    {"ChatLogprobs", "{content:[TokenLogprob] refusal:0}"},
    {"TextLogprobs", "{tokens:[s] token_logprobs:[n|0] top_logprobs:[{*n}|0] "
                     "text_offset:[i]}"},
    {"PromptLogprobs", "[{*{logprob:n rank:i decoded_token:s}}|0]"},
    {"ToolCall", TOOL_CALL},
    {"ChatMessage", "{role:'assistant' content:s|0 refusal:0 reasoning:s|0 "
                    "reasoning_content?:s tool_calls?:[ToolCall]}"},
    {"ChatDelta", "{role?:'assistant' content?:s reasoning?:s reasoning_content?:s "
                  "tool_calls?:[{index:i id?:s type?:'function' "
                  "function:{name?:s arguments:s}}]}"},
    {"Model", "{id:s object:'model' created:i owned_by:s root:s parent:s|0 "
              "max_model_len?:i permission:[v] "
              "status?:{value:s pinned:b failed?:b exit_code?:i}}"},
    {"ChatCompletion",
     "{id:s object:'chat.completion' created:i model:s system_fingerprint:s "
     "service_tier:s choices:[{index:i message:ChatMessage "
     "logprobs:ChatLogprobs|0 " CHOICE_END
     "}] usage:Usage prompt_token_ids:[i]|0 prompt_logprobs:PromptLogprobs|0 "
     "timings?:Timings metrics?:Metrics}"},
    {"ChatCompletionChunk",
     "{id:s object:'chat.completion.chunk' created:i model:s system_fingerprint:s "
     "service_tier:s choices:[{index:i delta:ChatDelta "
     "logprobs:ChatLogprobs|0 " CHOICE_END
     "}] usage?:Usage|0 prompt_token_ids?:[i] prompt_progress?:Progress "
     "timings?:Timings metrics?:Metrics}"},
    {"CompletionChoice", "{index:i text:s logprobs:TextLogprobs|0 " CHOICE_END
                         " prompt_logprobs?:PromptLogprobs|0 prompt_token_ids?:[i]|0}"},
    {"Completion",
     "{id:s object:'text_completion' created:i model:s system_fingerprint:s "
     "choices:[CompletionChoice] usage:Usage timings?:Timings metrics?:Metrics}"},
    {"CompletionChunk",
     "{id:s object:'text_completion' created:i model:s system_fingerprint:s "
     "choices:[CompletionChoice] usage?:Usage|0 prompt_progress?:Progress "
     "timings?:Timings metrics?:Metrics}"},
    {"Embeddings",
     "{id:s object:'list' created:i model:s data:[Embedding] usage:PromptUsage}"},
    {"Reranked", "{id:s created:i model:s usage:PromptUsage "
                 "results:[{index:i relevance_score:n document?:{text:s}}]}"},
    {"Embedding", "{object:'embedding' index:i embedding:[n]|s}"},
    {"File", "{id:s object:'file' bytes:i created_at:i expires_at:i|0 filename:s "
             "purpose:s status:s}"},
    {"Batch",
     "{id:s object:'batch' endpoint:s completion_window:s status:s input_file_id:s "
     "output_file_id:s|0 error_file_id:s|0 created_at:i in_progress_at:i|0 expires_at:i "
     "finalizing_at:i|0 completed_at:i|0 failed_at:i|0 expired_at:i|0 cancelling_at:i|0 "
     "cancelled_at:i|0 metadata:o|0 request_counts:{total:i completed:i failed:i} "
     "errors:{object:'list' data:[{code:s message:s param:s|0 line:i|0}]}|0}"},
    {"FileList", LIST("File")},
    {"BatchList", LIST("Batch")},
    {"ItemList", LIST("Item")},
    {"Deleted", "{id:s object:s deleted:b}"},
    {"Conversation", "{id:s object:'conversation' created_at:i metadata:o}"},
    /* what a client has sent has more members, of its own */
    {"Item", "{id:s type:s *v}"},
    {"ResponseUsage", "{input_tokens:i input_tokens_details:{cached_tokens:i} "
                      "output_tokens:i output_tokens_details:{reasoning_tokens:i} "
                      "total_tokens:i}"},
    {"ResponseText", "{type:'output_text' text:s annotations:[v] "
                     "logprobs:[TokenLogprob]}"},
    {"ResponseItem",
     "{id:s type:'message' status:s role:'assistant' content:[ResponseText]}|"
     "{id:s type:'reasoning' status:s summary:[v] "
     "content:[{type:'reasoning_text' text:s}]}|"
     "{id:s type:'function_call' status:s call_id:s name:s arguments:s}|"
     "{id:s type:'custom_tool_call' status:s call_id:s name:s input:s}"},
    {"Response",
     "{id:s object:'response' created_at:i status:s model:s output:[ResponseItem] "
     "error:{code:s message:s}|0 incomplete_details:{reason:s}|0 usage:ResponseUsage|0 "
     "temperature:n top_p:n service_tier:s background:b instructions:v "
     "max_output_tokens:i|0 max_tool_calls:i|0 metadata:o parallel_tool_calls:b "
     "previous_response_id:s|0 reasoning:o store:b text:o tool_choice:v tools:[v] "
     "top_logprobs:i|0 truncation:s user:s|0 conversation?:{id:s} timings?:Timings}"},
    {"ResponseEvent",
     "{type:s sequence_number:i response:Response prompt_progress?:Progress "
     "timings?:Timings}|"
     "{type:s sequence_number:i output_index:i item:ResponseItem timings?:Timings}|"
     "{type:s sequence_number:i output_index:i item_id:s content_index?:i "
     "part?:ResponseText|{type:'reasoning_text' text:s} delta?:s text?:s "
     "logprobs?:[TokenLogprob] arguments?:s input?:s name?:s timings?:Timings}|"
     "{type:'error' sequence_number:i code:s|0 message:s param:s|0}"},
    /* Anthropic's */
    {"MessageUsage", "{input_tokens:i cache_creation_input_tokens:i "
                     "cache_read_input_tokens:i output_tokens:i}"},
    {"MessageBlock", "{type:'text' text:s}|{type:'thinking' thinking:s signature:s}|"
                     "{type:'tool_use' id:s name:s input:o}"},
    {"Message", "{id:s type:'message' role:'assistant' model:s content:[MessageBlock] "
                "stop_reason:s|0 stop_sequence:s|0 usage:MessageUsage}"},
    {"MessageEvent",
     "{type:'message_start' message:Message}|{type:'ping'}|{type:'message_stop'}|"
     "{type:'content_block_start' index:i content_block:MessageBlock}|"
     "{type:'content_block_delta' index:i delta:{type:'text_delta' text:s}|"
     "{type:'thinking_delta' thinking:s}|{type:'signature_delta' signature:s}|"
     "{type:'input_json_delta' partial_json:s}}|"
     "{type:'content_block_stop' index:i}|"
     "{type:'message_delta' delta:{stop_reason:s stop_sequence:s|0} "
     "usage:MessageUsage}|"
     "{type:'error' error:{type:s message:s} request_id:s}"},
    /* Ollama's */
    {"OllamaDetails", "{parent_model:s format:s family:s families:[s] parameter_size:s "
                      "quantization_level:s}"},
    {"OllamaModel", "{name:s model:s modified_at:s size:i digest:s "
                    "details:OllamaDetails}"},
    {"OllamaChat",
     "{model:s created_at:s done:b message:{role:'assistant' content:s thinking?:s "
     "tool_calls?:[OllamaCall]} " LINE_ENDS "}"},
    {"OllamaText", "{model:s created_at:s done:b response:s thinking?:s " LINE_ENDS "}"},
    {"OllamaCall", "{id:s function:{index:i name:s arguments:o}}"},
    /* llama.cpp's */
    {"Settings", "{" SAMPLERS "}"},
    {"LlamaCppAnswer",
     "{" SLOT_ANSWER " model:s generation_settings:Settings prompt:s has_new_line:b "
     "truncated:b stop_type:s stopping_word:s tokens_cached:i timings:Timings}"},
    {"LlamaCppEvent",
     "{" SLOT_ANSWER " prompt_progress?:Progress timings?:Timings model?:s "
     "generation_settings?:Settings prompt?:s has_new_line?:b truncated?:b stop_type?:s "
     "stopping_word?:s tokens_cached?:i}"},
    {"Slot", "{id:i n_ctx:i speculative:b is_processing:b}"},
    {"Probability", "{id:i token:s bytes:[i] logprob?:n prob?:n "
                    "top_logprobs?:[{id:i token:s bytes:[i] logprob:n}] "
                    "top_probs?:[{id:i token:s bytes:[i] prob:n}]}"},
    /* TGI's */
    {"TgiToken", "{id:i text:s logprob:n special:b}"},
    {"TgiDetails", "{finish_reason:s generated_tokens:i seed:i|0 input_length:i "
                   "prefill:[v] tokens:[TgiToken] top_tokens?:[[TgiToken]]}"},
    {"TgiEvent",
     "{token:TgiToken index:i generated_text:s|0 top_tokens?:[TgiToken] "
     "details:{finish_reason:s generated_tokens:i seed:i|0 input_length:i}|0}"},
    /* ours */
    {"Units", "{device_units:i device_units_free:i host_units:i host_units_free:i}"},
    {"Requests", "{waiting:i running:i preempted:i}"},
    {"PolicyFigures", "{*{figures:{*i|n} events:{*i|n}}}"},
    {"Policy", "{name:s version:s description:s path:s parameters:{*s}}"},
    {"Parameter", "{name:s type:s value:s default:s|0 expected:s sentence:s unit:s|0 "
                  "set_by:s choices:s|0 live:b auto:b experimental:b}"},
    {"Kind", "{name:s version:s description:s licence:s path:s section:s "
             "parameters:[Parameter] found:[s]}"},
    {"Health", "{status:s model?:s scheduler_fallback?:s|0 error?:s}"},
    {"Status",
     "{version:s state:s model:s started:i generation:i reloads:i reloads_refused:i "
     "last_reload:{time:i ok:b message:s}|0 config:s plugins:{*Policy} "
     "requests:Requests cache:Units scheduler_fallback:s|0 steps:i "
     "instances:[InstanceStatus] batches:{validating:i in_progress:i ending:i "
     "lines_queued:i lines_completed:i lines_failed:i blocked:b}|0 "
     "sandbox:{files:s calls:s} estimates:{steps:i error:n bias:n}}"},
    {"RouterStatus",
     "{version:s state:s started:i config:s generation:i models:{*{value:s pinned:b "
     "failed?:b exit_code?:i requests:i memory_bytes:i pid:i|0}}}"},
    {"InstanceStatus",
     "{role:s status:s reason:s|0 requests:Requests|0 cache:Units|0 "
     "policies:PolicyFigures|0 steps:i offered:i handed_over:i taken_over:i "
     "scheduler_fallback:s|0}"},
    {"ClassFigures", "{requests:i prompt_tokens:i generated_tokens:i slo:[i]}"},
    {"Figures",
     "{time:i state:s why:s model:s generation:i ended:i classes:{none:ClassFigures "
     "realtime:ClassFigures best_effort:ClassFigures} instances:[InstanceFigures]}"},
    {"InstanceFigures",
     "{role:s up:b waiting:i running:i preempted:i offered:i memory:{device_units:i "
     "device_units_free:i host_units:i host_units_free:i device_tokens:{kv:i hidden:i} "
     "host_tokens:{kv:i hidden:i} copied_bytes:i} steps:{n:i plan_ns:i step_ns:i "
     "run_ns:i "
     "tokens:i sequences:i} prompt_tokens:i generated_tokens:i shared_tokens:i "
     "recomputed:i swapped:i displaced:i policies:PolicyFigures fallback:s|0}"},
    {"InstanceQueues",
     "{scheduler:s switched_off:b counts:{*[i]} tenants:{*{*i}} rows:[v] "
     "rest:{requests:i kv:i hidden:i shared:i host:i} lines:[s]}"},
    {"QueuedRequest",
     "{id:i label:s|0 state:s class:s priority:i tenant:i prompt_tokens:i "
     "generated_tokens:i cached_tokens:i preemptions:i predicted_tokens:i|0 seconds:n}"},
    {"Session", "{id:i name:s tenant:s requests:i instance:i tokens:i there:{device:i "
                "host:i disk:i} ended_by:s|0 idle_seconds:n|0 returns_in_seconds:n|0}"},
    {"BlockEvent", "{type:s block_hashes?:[s] parent_block_hash?:s|0 token_ids?:[i] "
                   "block_size?:i lora_id?:i|0 lora_name?:s|0 medium?:s group_idx?:i}"},
    {"Replay", "{state:s progress:n began:i reason:s|0 result:o|0}"},
    {NULL, NULL},
};
