/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints of ZeroMQ in a configuration; endpoint.c */
#ifndef LLS_CONFIG_ENDPOINT_H
#define LLS_CONFIG_ENDPOINT_H

#include <stdbool.h>

/* Returns true if two sockets cannot be bound to a and b at the same time. */
bool lls_endpoints_clash(const char *a, const char *b);

#endif
