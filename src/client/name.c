/* name.c: taking a pool's name apart. */
#include "client/name.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/status.h"

#define LATENCY_US_MAX 1000000u
#define TIMEOUT_US_MIN 1000u
#define TIMEOUT_US_MAX 3600000000u
/* Of a host's name in the DNS. */
#define HOST_BYTES_MAX 253u

/* Where an error sentence goes. */
struct reading {
	char *error_text;
	size_t error_bytes;
};

PRINTF_LIKE(2, 3)
static int refuse(const struct reading *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->error_text, r->error_bytes, format, args);
	va_end(args);
	return FORGE_E_INVAL;
}

/* ---- options ------------------------------------------------------------------------------ */

enum option_kind { OPTION_TIME, OPTION_YES, OPTION_TEXT };

static const struct name_option {
	const char *name; /* with its = */
	enum option_kind kind;
	size_t offset;
	uint64_t min_us, max_us;
	const char *range;
} name_options[] = {
    {"latency=", OPTION_TIME, offsetof(struct pool_name, latency_us), 0, LATENCY_US_MAX,
     "at most 1s, with a unit, e.g. 2us"},
    {"timeout=", OPTION_TIME, offsetof(struct pool_name, timeout_us), TIMEOUT_US_MIN,
     TIMEOUT_US_MAX, "1ms to 1h, with a unit, e.g. 2s"},
    {"tls=", OPTION_YES, offsetof(struct pool_name, tls), 0, 0, NULL},
    {"key-file=", OPTION_TEXT, offsetof(struct pool_name, access.key_file), 0, 0, NULL},
    {"key-name=", OPTION_TEXT, offsetof(struct pool_name, access.key_name), 0, 0, NULL},
    {"ca=", OPTION_TEXT, offsetof(struct pool_name, access.authority), 0, 0, NULL},
    {"tls-name=", OPTION_TEXT, offsetof(struct pool_name, access.tls_name), 0, 0, NULL},
    {"cert=", OPTION_TEXT, offsetof(struct pool_name, access.certificate), 0, 0, NULL},
    {"cert-key=", OPTION_TEXT, offsetof(struct pool_name, access.certificate_key), 0, 0, NULL},
};

static const struct name_option *option_find(const char *text)
{
	for (unsigned i = 0; i < ARRAY_COUNT(name_options); i++)
		if (strncmp(text, name_options[i].name, strlen(name_options[i].name)) == 0)
			return &name_options[i];
	return NULL;
}

static int time_parse(const struct name_option *o, const char *text, const char *value,
		      struct pool_name *out, const struct reading *r)
{
	uint64_t us;

	if (parse_duration_us(value, &us) || us < o->min_us || us > o->max_us)
		return refuse(r, "\"%s\" in the pool's name is no %.*s: write a time, %s", value,
			      (int)strlen(o->name) - 1, o->name, o->range);
	*(uint64_t *)((char *)out + o->offset) = us;
	return 0;
}

/* text is in out->where. */
static int option_parse(const char *text, struct pool_name *out, const struct reading *r)
{
	const struct name_option *o = option_find(text);

	/* Not what is behind '=': somebody may take it for the place of a secret. */
	if (!o)
		return refuse(r,
			      "\"%.*s\" behind the pool's name is no option: there are latency=, "
			      "timeout=, key-file=, key-name=, tls=, ca=, tls-name=, cert= and "
			      "cert-key=",
			      (int)strcspn(text, "="), text);
	const char *value = text + strlen(o->name);

	if (o->kind == OPTION_TIME)
		return time_parse(o, text, value, out, r);
	if (o->kind == OPTION_YES && strcmp(value, "1") != 0)
		return refuse(r, "%s in the pool's name is 1 or left out", o->name);
	if (*value == '\0')
		return refuse(r, "%s in the pool's name has nothing behind it", o->name);
	if (o->kind == OPTION_YES)
		*(uint64_t *)((char *)out + o->offset) = 1;
	else
		*(uint16_t *)((char *)out + o->offset) = (uint16_t)(value - out->where);
	return 0;
}

static int options_parse(char *text, struct pool_name *out, const struct reading *r)
{
	char *next = text;
	int status = 0;

	while (next && !status) {
		char *option = strsep(&next, "&");

		status = option_parse(option, out, r);
	}
	return status;
}

/*
 * Where the options begin, or the end.  A path may hold anything, but hardly a '?' with an option
 * behind it; nothing else may hold a '?' at all.
 */
static size_t options_at(const char *where, int in_path)
{
	const char *mark = in_path ? strrchr(where, '?') : strchr(where, '?');

	return mark && (!in_path || option_find(mark + 1)) ? (size_t)(mark - where) : strlen(where);
}

static int is_path(enum name_kind kind, const char *where)
{
	return kind == NAME_UNIX || (kind == NAME_SHM && strncmp(where, "shm:", 4) != 0);
}

static int begins_name(const char *text)
{
	static const char *const beginnings[] = {
	    "shm:", "file:", "tcp:", "tls:", "unix:", "/", "./"};

	for (unsigned i = 0; i < ARRAY_COUNT(beginnings); i++)
		if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
			return 1;
	return 0;
}

/* ---- places ------------------------------------------------------------------------------- */

static int port_parse(const char *text, const struct reading *r, uint16_t *out)
{
	uint64_t port;

	if (parse_u64(text, &port) || port == 0 || port > UINT16_MAX)
		return refuse(r, "\"%s\" in the pool's name is no port: write 1 to 65535", text);
	*out = (uint16_t)port;
	return 0;
}

/* HOST:PORT or [ADDRESS]:PORT in out->where. */
static int tcp_parse(struct pool_name *out, const struct reading *r)
{
	const char *scheme = out->is_tls_name ? "tls" : "tcp";
	char *host = out->where, *end = strrchr(out->where, ':');
	size_t bytes;

	if (host[0] == '[') {
		char *bracket = strchr(host, ']');

		if (!bracket)
			return refuse(r, "%s://%s has no ']' behind the address", scheme, host);
		end = bracket[1] == ':' ? bracket + 1 : NULL;
	} else if (end && strchr(host, ':') != end) {
		return refuse(
		    r,
		    "%s://%s has several colons: write an IPv6 address in brackets, as in "
		    "%s://[::1]:PORT",
		    scheme, host, scheme);
	}
	if (!end)
		return refuse(r, "%s://%s has no port: write %s://HOST:PORT", scheme, host, scheme);
	*end = '\0';
	int status = port_parse(end + 1, r, &out->port);

	if (status)
		return status;
	if (host[0] == '[') {
		end[-1] = '\0';
		memmove(host, host + 1, strlen(host));
	}
	bytes = strlen(host);
	if (bytes == 0 || bytes > HOST_BYTES_MAX || strpbrk(host, "/ "))
		return refuse(r, "\"%.260s\" in the pool's name is no host: write %s://HOST:PORT",
			      host, scheme);
	return 0;
}

static int unix_parse(struct pool_name *out, const struct reading *r)
{
	size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (out->where[0] != '/' && strncmp(out->where, "./", 2) != 0)
		return refuse(r, "unix:%s names no socket: write unix:/PATH or unix:./PATH",
			      out->where);
	if (strlen(out->where) > most)
		return refuse(r, "unix:%.40s... is longer than %zu bytes: shorten it", out->where,
			      most);
	return 0;
}

/* Only whether it can be one at all; fabric/shm.h has the rest to say. */
static int shm_parse(struct pool_name *out, const struct reading *r)
{
	if (begins_name(out->where) && strncmp(out->where, "tcp:", 4) != 0 &&
	    strncmp(out->where, "tls:", 4) != 0)
		return 0;
	return refuse(r,
		      "\"%s\" is no pool's name: write shm:/name, file:/path, /path, ./path, "
		      "tcp://host:port, tls://host:port or unix:/path",
		      out->where);
}

static int (*const place_parsers[])(struct pool_name *, const struct reading *) = {
    [NAME_SHM] = shm_parse,
    [NAME_TCP] = tcp_parse,
    [NAME_UNIX] = unix_parse,
};

/* Its kind, and the bytes before its place. */
static enum name_kind kind_of(const char *name, size_t *skip)
{
	*skip = 0;
	if (strncmp(name, "tcp://", 6) == 0 || strncmp(name, "tls://", 6) == 0) {
		*skip = 6;
		return NAME_TCP;
	}
	if (strncmp(name, "unix:", 5) == 0) {
		*skip = 5;
		return NAME_UNIX;
	}
	return NAME_SHM;
}

int name_is_of_socket(const char *name)
{
	size_t skip;

	return kind_of(name, &skip) != NAME_SHM;
}

int name_has_options(const char *name)
{
	size_t skip;
	enum name_kind kind = kind_of(name, &skip);
	const char *where = name + skip;

	return where[options_at(where, is_path(kind, where))] != '\0';
}

/* Only nodes behind sockets ask who comes, and only on a network does anybody listen. */
static int access_check(const struct pool_name *n, const struct reading *r)
{
	static const struct name_access none;

	if (n->kind == NAME_SHM && (n->tls || memcmp(&n->access, &none, sizeof(none)) != 0))
		return refuse(
		    r, "keys and certificates are for nodes behind tcp://, tls:// and unix:, "
		       "not for memory of this host: leave them out");
	if (n->kind == NAME_SHM && n->timeout_us)
		return refuse(
		    r, "timeout= is for nodes behind tcp://, tls:// and unix:, memory of this host "
		       "keeps nobody waiting: leave it out");
	if (n->kind == NAME_UNIX && n->tls)
		return refuse(r, "a Unix socket is not encrypted: leave tls= out");
	return 0;
}

/* "shm:/a; shm:/b": a scheme behind what is no comma, or no comma alone. */
static int has_other_separator(const char *name, size_t bytes)
{
	static const char separators[] = " ;|\t\n";

	for (const char *at = name; at < name + bytes; at++) {
		const char *next = at + strspn(at, separators);

		/* What begins with no letter is a path, in which there may be anything. */
		if (next > at && *next != '/' && *next != '.' && begins_name(next))
			return 1;
	}
	return 0;
}

/* One of a list; a comma at its end or alone has no name on one side. */
static int parse(const char *name, size_t bytes, struct pool_name *out, const struct reading *r)
{
	size_t skip;
	char *options;
	int status = 0;

	if (bytes > 0 && name[bytes - 1] == ',')
		return refuse(r,
			      "no memory node is named behind the comma of \"%.*s\" in the pool's "
			      "name: leave the comma out, or name one",
			      (int)bytes, name);
	if (bytes == 0 && *name == ',')
		return refuse(r, "the pool's name begins with a comma: leave it out, or name a "
				 "memory node before it");

	if (has_other_separator(name, bytes))
		return refuse(
		    r,
		    "\"%.*s\" is several names: memory nodes are separated by commas, and "
		    "nothing else",
		    (int)bytes, name);
	memset(out, 0, offsetof(struct pool_name, where));
	out->kind = kind_of(name, &skip);
	out->is_tls_name = strncmp(name, "tls://", skip) == 0 && skip > 0;
	out->tls = out->is_tls_name;
	bytes -= skip;
	if (bytes >= sizeof(out->where))
		return refuse(r, "the pool's name is longer than %zu bytes",
			      sizeof(out->where) - 1);
	memcpy(out->where, name + skip, bytes);
	out->where[bytes] = '\0';
	options = out->where + options_at(out->where, is_path(out->kind, out->where));
	if (*options) {
		*options = '\0';
		status = options_parse(options + 1, out, r);
	}
	if (!status)
		status = access_check(out, r);
	return status ? status : place_parsers[out->kind](out, r);
}

/* ---- lists -------------------------------------------------------------------------------- */

/* The comma behind the first name, or the end. */
static const char *name_end(const char *list)
{
	const char *comma = list;

	while ((comma = strchr(comma, ',')) && !begins_name(comma + 1))
		comma++;
	return comma ? comma : list + strlen(list);
}

uint64_t name_place_hash(const struct pool_name *name)
{
	const uint64_t parts[] = {(uint64_t)name->kind << 16 | name->port,
				  hash_key(name->where, strlen(name->where))};

	return hash_key(parts, sizeof(parts));
}

int name_place_text(const struct pool_name *n, char *out, size_t bytes)
{
	int written;

	if (n->kind == NAME_TCP && strchr(n->where, ':'))
		written =
		    snprintf(out, bytes, "%s://[%s]:%u", n->tls ? "tls" : "tcp", n->where, n->port);
	else if (n->kind == NAME_TCP)
		written =
		    snprintf(out, bytes, "%s://%s:%u", n->tls ? "tls" : "tcp", n->where, n->port);
	else
		written =
		    snprintf(out, bytes, "%s%s", n->kind == NAME_UNIX ? "unix:" : "", n->where);
	return written >= 0 && (size_t)written < bytes ? 0 : FORGE_E_INVAL;
}

int name_as(const struct pool_name *place, const struct pool_name *model, char *out, size_t bytes)
{
	int status = name_place_text(place, out, bytes);
	const char *mark = "?";

	if (status || !model)
		return status;
	if (model->tls && !place->tls)
		memcpy(out, "tls", 3);
	for (unsigned i = 0; i < ARRAY_COUNT(name_options); i++) {
		const struct name_option *o = &name_options[i];
		const void *value = (const char *)model + o->offset;
		size_t used = strlen(out);
		int n = 0;

		if (o->kind == OPTION_TIME && *(const uint64_t *)value)
			n = snprintf(out + used, bytes - used, "%s%s%" PRIu64 "us", mark, o->name,
				     *(const uint64_t *)value);
		else if (o->kind == OPTION_TEXT && *(const uint16_t *)value &&
			 o->offset != offsetof(struct pool_name, access.tls_name))
			n = snprintf(out + used, bytes - used, "%s%s%s", mark, o->name,
				     name_text(model, *(const uint16_t *)value));
		if (n < 0 || (size_t)n >= bytes - used)
			return FORGE_E_INVAL;
		mark = n ? "&" : mark;
	}
	return 0;
}

size_t name_first_bytes(const char *list)
{
	return (size_t)(name_end(list) - list);
}

int name_parse(const char *name, struct pool_name *out, char *error_text, size_t error_bytes)
{
	const struct reading r = {error_text, error_bytes};
	const char *end = name_end(name);

	if (*end)
		return refuse(&r, "\"%s\" is a list, where one memory node is to be named", name);
	return parse(name, (size_t)(end - name), out, &r);
}

static int is_same_place(const struct pool_name *a, const struct pool_name *b)
{
	return a->kind == b->kind && a->port == b->port && strcmp(a->where, b->where) == 0;
}

int name_parse_list(const char *list, struct pool_name **out, unsigned *count, char *error_text,
		    size_t error_bytes)
{
	const struct reading r = {error_text, error_bytes};
	unsigned n = 1;

	for (const char *end = name_end(list); *end; end = name_end(end + 1))
		n++;
	if (n > NAME_NODES_MAX)
		return refuse(&r, "the pool's name lists %u memory nodes, at most %u are possible",
			      n, NAME_NODES_MAX);
	struct pool_name *names = calloc(n, sizeof(*names));

	if (!names) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	const char *name = list;
	int status = 0;

	for (unsigned i = 0; i < n && !status; i++) {
		const char *end = name_end(name);

		status = parse(name, (size_t)(end - name), &names[i], &r);
		for (unsigned j = 0; j < i && !status; j++)
			if (is_same_place(&names[i], &names[j]))
				status = refuse(&r, "the pool's name lists \"%.*s\" twice",
						(int)(end - name), name);
		name = end + 1;
	}
	if (status) {
		free(names);
		return status;
	}
	*out = names;
	*count = n;
	return 0;
}
