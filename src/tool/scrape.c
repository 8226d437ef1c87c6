/* scrape.c: asking a metrics endpoint, and reading the few lines of its page that matter. */
#include "tool/scrape.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/names.h"
#include "tool/at_once.h"

#define PATIENCE_S 3
/* A page has some ten thousand bytes. */
#define PAGE_BYTES_MAX (1u << 20)

/* ---- the page ----------------------------------------------------------------------------- */

static int connect_to(const struct addrinfo *a)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Cut "host:port" or "[host]:port" in two, in place.  false: it is neither. */
static bool cut(char *address, char **host, char **port)
{
	char *colon = strrchr(address, ':');

	if (!colon || colon == address || !colon[1])
		return false;
	*colon = '\0';
	*port = colon + 1;
	*host = address;
	if (address[0] == '[' && colon[-1] == ']') {
		colon[-1] = '\0';
		*host = address + 1;
	}
	return true;
}

/* Ask, and read all of the answer.  How many bytes, or -1. */
static ssize_t ask(int fd, char *page, size_t room)
{
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
	size_t bytes = 0;
	ssize_t n = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);

	if (n != (ssize_t)sizeof(request) - 1)
		return -1;
	while (bytes < room && (n = recv(fd, page + bytes, room - bytes, 0)) > 0)
		bytes += (size_t)n;
	return n < 0 || bytes == room ? -1 : (ssize_t)bytes;
}

/* ---- its lines ---------------------------------------------------------------------------- */

static void take_verbs(const char *line, uint64_t n, struct scraped *out)
{
	char name[64];

	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		for (unsigned c = 0; c < FAB_CODES; c++) {
			snprintf(name, sizeof(name), "{purpose=\"%s\",verb=\"%s\"}",
				 fab_purpose_name(p), fab_code_name(c));
			if (strcmp(line, name) == 0)
				out->verbs[p][c] += n;
		}
}

/* Told at the same moments as verbs, so that the ratio is right. */
static bool is_operations(const char *name)
{
	static const char *const names[] = {"gets", "sets", "changes", "deletes"};
	char full[64];

	for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
		snprintf(full, sizeof(full), "forge_cache_%s_total", names[i]);
		if (strcmp(name, full) == 0)
			return true;
	}
	return false;
}

/* How many of its lines told something. */
static unsigned take_page(char *page, struct scraped *out)
{
	static const char verbs[] = "forge_verbs_total";
	unsigned told = 0;
	char *rest = page, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *space = strrchr(line, ' ');

		if (!space || line[0] == '#')
			continue;
		uint64_t n = strtoull(space + 1, NULL, 10);

		*space = '\0';
		if (strncmp(line, verbs, sizeof(verbs) - 1) == 0)
			take_verbs(line + sizeof(verbs) - 1, n, out);
		else if (is_operations(line))
			out->operations += n;
		else
			continue;
		told++;
	}
	return told;
}

/* ---- servers ------------------------------------------------------------------------------ */

static int scrape_one(const char *where, char *page, struct scraped *out, char *error_text,
		      size_t error_bytes)
{
	const struct addrinfo wish = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	char address[256], *host, *port;
	struct addrinfo *found;
	ssize_t bytes = -1;
	int fd = -1;

	snprintf(address, sizeof(address), "%s", where);
	if (!cut(address, &host, &port) || getaddrinfo(host, port, &wish, &found)) {
		snprintf(error_text, error_bytes,
			 "'%s' is no address of a server: give what its ready line says behind "
			 "'metrics', such as 127.0.0.1:9150",
			 where);
		return FORGE_E_INVAL;
	}
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a);
	freeaddrinfo(found);
	if (fd >= 0) {
		bytes = ask(fd, page, PAGE_BYTES_MAX);
		close(fd);
	}
	if (bytes < 0) {
		snprintf(error_text, error_bytes,
			 "%s: no server answers there: start 'forge serve --metrics %s'", where,
			 where);
		return FORGE_E_SYSTEM;
	}
	page[bytes] = '\0';
	if (take_page(page, out) > 0)
		return 0;
	snprintf(error_text, error_bytes, "%s: what answers there is no forge serve", where);
	return FORGE_E_FORMAT;
}

/* A server of the list. */
struct server {
	const char *where;
	struct scraped scraped;
	int status;
	char error_text[320];
};

static void scrape(void *context, unsigned i)
{
	struct server *s = (struct server *)context + i;
	char *page = malloc(PAGE_BYTES_MAX + 1);

	s->status = FORGE_E_NO_MEMORY;
	snprintf(s->error_text, sizeof(s->error_text), "%s", status_sentence(s->status));
	if (page)
		s->status =
		    scrape_one(s->where, page, &s->scraped, s->error_text, sizeof(s->error_text));
	free(page);
}

static void add(struct scraped *sum, const struct scraped *one)
{
	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		for (unsigned c = 0; c < FAB_CODES; c++)
			sum->verbs[p][c] += one->verbs[p][c];
	sum->operations += one->operations;
}

int scrape_servers(const char *list, struct scraped *out, char *error_text, size_t error_bytes)
{
	unsigned count = 1, n = 0;
	int status = 0;

	*out = (struct scraped){0};
	for (const char *at = list; (at = strchr(at, ',')); at++)
		count++;
	struct server *servers = calloc(count, sizeof(*servers));
	char *copy = strdup(list), *rest = copy;

	if (!servers || !copy) {
		status = FORGE_E_NO_MEMORY;
		snprintf(error_text, error_bytes, "%s", status_sentence(status));
		count = 0;
	}
	while (n < count)
		servers[n++].where = strsep(&rest, ",");
	at_once(count, scrape, servers);
	for (unsigned i = 0; i < count && !status; i++) {
		status = servers[i].status;
		if (status)
			snprintf(error_text, error_bytes, "%s", servers[i].error_text);
		add(out, &servers[i].scraped);
	}
	free(copy);
	free(servers);
	return status;
}
