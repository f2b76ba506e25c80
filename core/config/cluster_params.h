/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of [cluster], for sections.c. */
#ifndef LLS_CONFIG_CLUSTER_PARAMS_H
#define LLS_CONFIG_CLUSTER_PARAMS_H

#include "core/config/config.h"

typedef struct lls_cluster_config cluster;
static const struct lls_param cluster_params[] = {
    LLS_PARAM_STRING(cluster, listen, "",
                     "HOST:PORT where other processes join this one, the front end, by "
                     "UCX; empty: none can"),
    LLS_PARAM_STRING(
        cluster, join, "",
        "HOST:PORT of the front end, which this process joins as an "
        "instance without HTTP; a name is looked up at each try; of several, "
        "separated by blanks or commas, the first one that has a place"),
    LLS_PARAM_PATH(cluster, secret, "",
                   "file whose contents all processes must know to join and to be "
                   "joined; empty: any process of the same version and model can"),
    LLS_PARAM_CHOICE(cluster, role, "any", "any|mixed|prefill|decode",
                     "role of [engine] roles that this process joins for; any is the "
                     "first free place"),
    LLS_PARAM_DURATION(cluster, load_timeout, "30min", 0, 86400e9,
                       "how long a process that has joined may take until it is ready, "
                       "model loaded; then its place is free for another one; 0 is no "
                       "limit"),
};

#define LLS_CLUSTER_SECTION                                                              \
  {                                                                                      \
    "cluster",                                                                           \
        "instances as processes that are started one by one, on any machine, and may "   \
        "come "                                                                          \
        "and go: the front end listens, every other process joins it, with the same "    \
        "[engine] instances and roles",                                                  \
        TABLE(cluster_params, cluster), offsetof(struct lls_config, cluster)             \
  }

#endif
