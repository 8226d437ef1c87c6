/* tcp_place.c: parsing the names of nodes behind a socket. */
#include "fabric/tcp_place.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/status.h"

#define TCP_SCHEME  "tcp://"
#define TLS_SCHEME  "tls://" /* of the same length */
#define UNIX_SCHEME "unix:"

#define REFUSE(...) (snprintf(error_text, error_bytes, __VA_ARGS__), FORGE_E_INVAL)

int tcp_place_is(const char *where)
{
	return strncmp(where, TCP_SCHEME, strlen(TCP_SCHEME)) == 0 ||
	       strncmp(where, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0;
}

static int parse_path(const char *where, struct tcp_place *out, char *error_text,
		      size_t error_bytes)
{
	const char *path = where + strlen(UNIX_SCHEME);

	const char *behind = path[0] == '.' ? path + 1 : path;

	if (behind[0] != '/' || behind[1] == '\0')
		return REFUSE("'%s' names no socket: write unix:/path or unix:./path", where);
	if (strlen(path) >= sizeof(out->path))
		return REFUSE(
		    "'%.20s...' is longer than the %zu bytes of a socket's path: choose a "
		    "shorter one",
		    where, sizeof(out->path) - 1);
	out->is_unix = 1;
	strcpy(out->path, path);
	return FORGE_OK;
}

int tcp_place_parse(const char *where, struct tcp_place *out, char *error_text, size_t error_bytes)
{
	const char *from = where + strlen(TCP_SCHEME), *to, *colon;
	uint64_t port;

	*out = (struct tcp_place){0};
	if (strncmp(where, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0)
		return parse_path(where, out, error_text, error_bytes);
	out->is_tls = strncmp(where, TLS_SCHEME, strlen(TLS_SCHEME)) == 0;
	if (!out->is_tls && strncmp(where, TCP_SCHEME, strlen(TCP_SCHEME)) != 0)
		return REFUSE("'%s' names no node: write tcp://host:port, tcp://[address]:port or "
			      "unix:/path",
			      where);
	if (*from == '[') {
		to = strchr(++from, ']');
		colon = to && to[1] == ':' ? to + 1 : NULL;
	} else {
		to = colon = strchr(from, ':');
		if (colon && strchr(colon + 1, ':'))
			return REFUSE("'%s': an IPv6 address goes into brackets: %.3s://[::1]:port",
				      where, where);
	}
	if (!colon)
		return REFUSE("'%s' has no port: write %.3s://host:port or %.3s://[address]:port",
			      where, where, where);
	if ((size_t)(to - from) >= sizeof(out->host))
		return REFUSE("'%.20s...': a host's name has at most %zu bytes", where,
			      sizeof(out->host) - 1);
	if (parse_u64(colon + 1, &port) || port > UINT16_MAX)
		return REFUSE("'%s': the port is no number up to 65535", where);
	memcpy(out->host, from, (size_t)(to - from));
	if (to == from)
		strcpy(out->host, "127.0.0.1");
	snprintf(out->port, sizeof(out->port), "%u", (unsigned)port);
	return FORGE_OK;
}
