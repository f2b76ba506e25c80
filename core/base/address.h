/* SPDX-License-Identifier: Apache-2.0 */
/* Splits addresses to listen on (HOST:PORT, [v6]:PORT, :PORT), and compares addresses of
 * sockets. */
#ifndef LLS_BASE_ADDRESS_H
#define LLS_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define LLS_HOST_MAX 256

/* Splits an address into a host without brackets ("" for all interfaces) and a port from
 * 0 to 65535 that points into the address. Returns -EINVAL if it is malformed. Names are
 * not looked up. */
int lls_address_split(const char *address, char host[LLS_HOST_MAX], const char **port);

/* True for the loopback addresses of IPv4 and IPv6, and for ::ffff:127.0.0.1. */
bool lls_address_is_loopback(const struct sockaddr *address);

/* True if the addresses of a socket's two ends are the same host; the ports may
 * differ. */
bool lls_address_same_host(const struct sockaddr *a, const struct sockaddr *b);

#endif
