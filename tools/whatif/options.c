/* SPDX-License-Identifier: Apache-2.0 */
/* The table of llmserve-whatif's options. */
#include "tools/whatif/whatif.h"

#define OPTIONS struct whatif_options
#include "tools/cli/table.h"

static const struct lls_param params[] = {
    TEXT(address, "",
         "HOST:PORT of the server that is asked (also -a); by default that of "
         "the configuration"),
    TEXT(key_file, "", "file that begins with the API key to send, as llmserve-ctl's",
         FILE_OPTION),
    TEXT(config, WHATIF_CONFIG, "the configuration that is served (also -c)",
         FILE_OPTION),
    TEXT(history, "",
         "a file in place of asking the server: of GET /admin/history, or a decision log "
         "([server] decisions)",
         FILE_OPTION),
    TEXT(running, "",
         "a file in place of asking the server what it runs: of GET /admin/config; with "
         "--history",
         FILE_OPTION),
    LIST(policies, "candidates, with commas or spaces between, each "
                   "SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]]"
                   "[:PARAMETER=VALUES]...: apt+hybrid, sarathi:chunk=128..512:128, "
                   "alise+tiered+retrieval; by default one of each kind"),
    TEXT(objective, "auto",
         "what the best is best in: goodput, throughput, ttft, ttft_p99, tpot, tpot_p99, "
         "latency, latency_p99, normalised, stall, met, preempted; auto: goodput where "
         "requests have SLOs, else "
         "latency"),
    LIST(goodput, "SLOs of all requests in place of their own, as KEY:MILLISECONDS"),
    TEXT(
        profile, "auto",
        "what the server's device can do: a file of llmserve-profile, or one that ships; "
        ""
        "auto: measured here while the server is idle, and kept for as long as the steps "
        "that it runs take the time that the profile says; learnt from these steps where "
        "the server is never idle"),
    TEXT(model, "", "the model's folder, where the configuration names none that is here",
         FOLDER_OPTION),
    LLS_PARAM_DURATION(OPTIONS, most_time, "1min", 1e9, 86400e9,
                       "processor time after which a simulation is given up"),
    LLS_PARAM_BYTES(OPTIONS, most_memory, "4GiB", 1e8, 1e15,
                    "address space of a simulation"),
    TEXT(json, "", "write the answer there", OUTPUT),
    FLAG(apply, "false", "reload the server with the best, where there is one", APART),
    LLS_PARAM_DURATION(OPTIONS, watch, "0", 0, 86400e9,
                       "ask again and again, so long after each other, and say so when "
                       "the same candidate was best three times in a row; nothing is "
                       "changed; 0: ask once"),
    FLAG(notify, "false",
         "with --watch: print nothing but that, and tell the system's log too", APART),
    FLAG(measure, "false",
         "only measure the device, if it has not been: the server is to be idle", APART),
    FLAG(quiet, "false", "no progress", APART),
    FLAG(help, "false", "show this", APART),
    FLAG(version, "false", "show the version", APART),
};

const struct lls_option_group whatif_option_group = {
    .title = "Options",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct whatif_options)},
};
