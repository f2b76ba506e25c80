/* SPDX-License-Identifier: Apache-2.0 */
/* The table of workload options, printed by --help of both tools. */
#include "tools/workload/options.h"

#define MANY   1e9
#define TOKENS 16777216

#define OPTIONS struct lls_workload_options
#include "tools/cli/table.h"

static const struct lls_param params[] = {
    TEXT(trace, "",
         "a trace with times; the same as --dataset-path FILE, but its own times "
         "are kept and by default all of it is used",
         FILE_OPTION),
    TEXT(dataset_name, "auto",
         "random, prefix_repetition, agents, or the format of --dataset-path: csv "
         "(llmserve's, see llmserve-trace(5)), azure, burstgpt, servegen, distserve, "
         "lengths (tables of Sarathi-Serve), tracelab or rounds (TraceLab), mooncake or "
         "timed_trace, llmservingsim, custom (lines of "
         "{\"prompt\"}), spec_bench, sharegpt, lmbench, alpaca, decisions (the requests "
         "of "
         "a decision log, or of GET /admin/history); auto: seen from the file, random "
         "without one"),
    TEXT(dataset_path, "", "the file", FILE_OPTION),
    TEXT(tokenizer, "", "a model folder with the tokenizer.json that counts texts",
         FOLDER_OPTION),
    INT(num_prompts, "auto", 1, MANY, "requests",
        "how many; auto: all of a trace, else 1000, or what --duration has room for",
        AUTO),
    INT(seed, "0", 0, 9e15, "", "the same seed makes the same workload"),
    FLAG(disable_shuffle, "false",
         "take the rows of a file without times in their order"),
    FLAG(no_oversample, "false",
         "never take a row twice: fewer requests where rows are short"),

    TEXT(input_lengths, "",
         "prompt lengths in place of the source's: fixed:N, uniform:A..B, "
         "lognormal:MEAN,STD"
         "[,A..B], exponential:MEAN[,A..B], file:PATH[:COLUMN] (drawn from a CSV), or a "
         "mixture W*DIST+W*DIST"),
    TEXT(output_lengths, "",
         "answer lengths in place of the source's, written the same way"),
    INT(input_len, "auto", 1, TOKENS, "tokens", "the same as --input-lengths fixed:N",
        AUTO),
    INT(output_len, "auto", 1, TOKENS, "tokens", "the same as --output-lengths fixed:N",
        AUTO),
    INT(random_input_len, "1024", 1, TOKENS, "tokens", "random: prompt length"),
    INT(random_output_len, "128", 1, TOKENS, "tokens", "random: answer length"),
    REAL(random_range_ratio, "0", 0, 0.999,
         "random: lengths are uniform from length * (1 - R) to length * (1 + R)"),
    INT(random_prefix_len, "0", 0, TOKENS, "tokens",
        "random: tokens before the prompt that all requests share"),
    INT(prefix_repetition_prefix_len, "256", 0, TOKENS, "tokens",
        "prefix_repetition: length of the shared prefixes"),
    INT(prefix_repetition_suffix_len, "256", 1, TOKENS, "tokens",
        "prefix_repetition: tokens after the prefix"),
    INT(prefix_repetition_num_prefixes, "10", 1, MANY, "", "prefix_repetition: how many"),
    INT(prefix_repetition_output_len, "128", 1, TOKENS, "tokens",
        "prefix_repetition: answer length"),
    TEXT(agents_turns, "exponential:12,2..100",
         "agents: turns of a session. Sessions arrive at --request-rate, --num-prompts "
         "of them; each turn is sent when the one before has ended and its tool has run"),
    INT(agents_prefix_len, "3000", 0, TOKENS, "tokens",
        "agents: instructions at the beginning of a session, shared with others"),
    INT(agents_num_prefixes, "4", 1, MANY, "", "agents: different instructions"),
    TEXT(agents_first_lengths, "lognormal:1500,2000,32..16000",
         "agents: tokens of the first turn, behind the instructions"),
    TEXT(agents_added_lengths, "lognormal:800,1600,16..16000",
         "agents: tokens that each further turn adds to the prompt and the answer of the "
         "one before"),
    TEXT(agents_output_lengths, "lognormal:180,240,8..2000", "agents: answer lengths"),
    TEXT(agents_tools, "read:6:0.2,search:3:1.5,bash:4:6,test:1:45,:1:60",
         "agents: what follows an answer, NAME:WEIGHT:SECONDS,...: how often a tool is "
         "called, and its median time, which is lognormal with sigma 1; without a name "
         "a user answers"),
    INT(min_len, "auto", 0, TOKENS, "tokens",
        "leave out shorter prompts and answers; auto: 4 for sharegpt, else 1", AUTO),
    INT(max_input_len, "auto", 1, TOKENS, "tokens",
        "leave out longer prompts; auto: 1024 for sharegpt, else no limit", AUTO),
    INT(max_total_len, "auto", 2, TOKENS, "tokens",
        "leave out prompts that are longer with their answer; auto: 2048 for sharegpt, "
        "else "
        "no limit",
        AUTO),
    INT(max_new_tokens, "auto", 1, TOKENS, "tokens",
        "the bound that requests ask for, which schedulers see; auto: the power of two "
        "that "
        "holds the longest answer of the workload",
        AUTO),

    CHOICE(
        arrivals, "auto", "auto|trace|gamma|uniform|once",
        "auto: the trace's times, or gamma where it has none; trace: the trace's times, "
        "scaled to --request-rate if that is set; gamma: --burstiness says how bursty, 1 "
        "is Poisson; uniform: equal gaps; once: all at the beginning"),
    TEXT(request_rate, "auto",
         "requests per second, or inf: all at once; auto: the trace's own, else inf"),
    REAL(burstiness, "1", 1e-3, 1e6,
         "shape of the gamma-distributed gaps; 1: Poisson, lower is burstier"),
    REAL(cv, "auto", 0.01, 30,
         "coefficient of variation of the gaps; the same as burstiness 1/CV^2", AUTO),
    TIME(duration, "auto", "leave out what arrives later", AUTO),
    REAL(time_scale, "1", 1e-6, 1e6, "a trace's times are multiplied by it"),
    TIME(jitter, "auto",
         "spread a trace's arrivals at random over so long; auto: 3s for mooncake, whose "
         "times are multiples of it, else 0",
         AUTO),
    TEXT(ramp_up_strategy, "none",
         "linear or exponential: the rate goes from --ramp-up-start-rps to "
         "--ramp-up-end-rps over the requests"),
    REAL(ramp_up_start_rps, "1", 1e-6, 1e6, "the rate at the first request"),
    REAL(ramp_up_end_rps, "1", 1e-6, 1e6, "the rate at the last"),

    REAL(realtime_share, "0", 0, 1, "share of requests of class realtime"),
    REAL(best_effort_share, "0", 0, 1, "share of requests of class best_effort"),
    INT(best_effort_priority, "0", -2147483648.0, 2147483647.0, "",
        "their priority, lower is served first; 0 is that of all other requests"),
    TIME(slo_ttft, "auto",
         "deadline of the first token; auto: none. SLOs are for every class "
         "but best_effort",
         AUTO),
    TIME(slo_ttft_per_token, "0",
         "longer for each prompt token, by the mean of the request's length group"),
    INT(slo_group_tokens, "512", 1, TOKENS, "tokens",
        "width of the prompt length groups (AccelGen, section 5)"),
    TIME(slo_tbt, "auto", "deadline between two tokens; auto: none", AUTO),
    TIME(slo_tpot, "auto", "deadline for the mean gap between tokens; auto: none", AUTO),
    TIME(slo_completion, "auto", "deadline of the last token; auto: none", AUTO),
    TIME(slo_completion_per_token, "0", "longer for each token of the answer"),
    TEXT(slo_ttft_scale, "1",
         "the TTFT deadline is multiplied by it: a number, A..B (uniform) or A|B|C (one "
         "of)"),
    TEXT(slo_tbt_scale, "1", "the same for the deadlines between tokens"),
    TEXT(slo_completion_scale, "1", "the same for the last token's"),
    LIST(slo_class, "deadlines of one class, in ms: realtime:ttft=400,tpot=200 "
                    "best_effort:completion=60000"),
    INT(tenants, "0", 0, 65536, "",
        "requests belong to so many tenants; 0: the trace's own"),
    REAL(tenant_skew, "0", 0, 10,
         "tenant k sends in proportion to 1/k^SKEW; 0: all the same"),

    INT(batch_size, "0", 0, MANY, "requests",
        "best-effort requests that are sent together, besides the others; 0: none "
        "(BROS)"),
    INT(batch_count, "1000", 1, MANY, "", "at most so many batches"),
    TIME(batch_period, "auto",
         "one batch so often; auto: as soon as the one before has ended, while others "
         "arrive",
         AUTO),
    TEXT(batch_input_lengths, "uniform:512..1024", "their prompt lengths"),
    TEXT(batch_output_lengths, "uniform:32..128", "their answer lengths"),
};

const struct lls_option_group lls_workload_option_group = {
    .title = "Workload",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct lls_workload_options)},
};
