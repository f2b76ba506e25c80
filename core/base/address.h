/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on, as they are written: HOST:PORT, [v6]:PORT, :PORT. */
#ifndef LLS_BASE_ADDRESS_H
#define LLS_BASE_ADDRESS_H

#include <stddef.h>

#define LLS_HOST_MAX 256

/* Into a host without brackets ("" for all interfaces) and a port, 0 to 65535, that
 * points into the address. -EINVAL if it is no such thing; names are not looked up. */
int lls_address_split(const char *address, char host[LLS_HOST_MAX], const char **port);

#endif
