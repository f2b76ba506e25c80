/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. */
#include "core/base/address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_port(const char *text)
{
  size_t length = strspn(text, "0123456789");
  return length > 0 && length <= 5 && text[length] == '\0' && atoi(text) <= 65535;
}

int lls_address_split(const char *address, char host[LLS_HOST_MAX], const char **port)
{
  const char *colon = strrchr(address, ':');
  if (colon == NULL || !is_port(colon + 1))
    return -EINVAL;
  size_t length = (size_t)(colon - address);
  if (address[0] == '[') {
    if (length <= 2 || colon[-1] != ']')
      return -EINVAL;
    address++;
    length -= 2;
  } else if (memchr(address, ':', length) != NULL) {
    return -EINVAL;
  }
  if (length >= LLS_HOST_MAX)
    return -EINVAL;
  memcpy(host, address, length);
  host[length] = '\0';
  *port = colon + 1;
  return 0;
}
