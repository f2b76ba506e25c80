/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. */
#include "core/base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
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

static const struct in6_addr *v6_of(const struct sockaddr *address)
{
  return &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static uint32_t v4_of(const struct sockaddr *address)
{
  return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
}

bool lls_address_is_loopback(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET)
    return ntohl(v4_of(address)) >> 24 == IN_LOOPBACKNET;
  if (address->sa_family != AF_INET6)
    return false;
  const struct in6_addr *v6 = v6_of(address);
  bool is_v4 = IN6_IS_ADDR_V4MAPPED(v6);
  return is_v4 ? v6->s6_addr[12] == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(v6);
}

bool lls_address_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
  if (a->sa_family != b->sa_family)
    return false;
  if (a->sa_family == AF_INET)
    return v4_of(a) == v4_of(b);
  return a->sa_family == AF_INET6 &&
         memcmp(v6_of(a), v6_of(b), sizeof(struct in6_addr)) == 0;
}
