/* served.c: see served.h. */
#include "served.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hosts.h"
#include "support/certs.h"
#include "support/tempdir.h"

/* What nodes and clients of "tls" show each other, made once. */
static struct {
	pid_t maker;
	struct tempdir directory;
	char keys[80];
	struct cert authority, node;
} shown;

static void remove_shown(void)
{
	if (getpid() == shown.maker)
		tempdir_remove(&shown.directory);
}

static void make_shown(void)
{
	if (shown.maker)
		return;
	assert_int_equal(tempdir_make(&shown.directory), 0);
	snprintf(shown.keys, sizeof(shown.keys), "%s/keys", shown.directory.path);
	int fd = open(shown.keys, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "web full 00112233445566778899aabbccddeeff\n") > 0);
	close(fd);
	cert_authority(shown.directory.path, "authority", &shown.authority);
	cert_issue(shown.directory.path, "node", &shown.authority, "IP:127.0.0.1", -86400, 86400,
		   &shown.node);
	shown.maker = getpid();
	atexit(remove_shown);
}

/* A port that nobody has just now. */
static unsigned free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned port = 0;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &bytes) == 0)
		port = ntohs(address.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

static void choose_url(struct served *s, const char *scheme)
{
	static unsigned number;

	s->path[0] = '\0';
	if (strcmp(scheme, "unix") == 0) {
		snprintf(s->path, sizeof(s->path), "/tmp/forge-served-%ld-%u", (long)getpid(),
			 number++);
		snprintf(s->url, sizeof(s->url), "unix:%s", s->path);
	} else if (strcmp(scheme, "tls") == 0) {
		unsigned port = free_port();

		make_shown();
		snprintf(s->url, sizeof(s->url), "tcp://127.0.0.1:%u", port);
		snprintf(s->name, sizeof(s->name),
			 "tls://127.0.0.1:%u?timeout=20s&ca=%s&key-file=%s", port,
			 shown.authority.certificate, shown.keys);
		return;
	} else if (strcmp(scheme, "tcp") == 0) {
		snprintf(s->url, sizeof(s->url), "tcp://127.0.0.1:%u", free_port());
	} else {
		snprintf(s->url, sizeof(s->url), "%s", scheme);
	}
	snprintf(s->name, sizeof(s->name), "%s?timeout=20s", s->url);
}

int served_start(struct served *s, const char *program, const char *pool_name, const char *scheme)
{
	char line[512];
	int ends[2];

	choose_url(s, scheme);
	if (pipe2(ends, O_CLOEXEC)) {
		perror("pipe");
		return -1;
	}
	fflush(NULL);
	s->pid = fork();
	if (s->pid == 0) {
		host_enter("FORGE_TEST_NODE_HOST", 0);
		/* Without TLS the list of arguments ends before it. */
		if (dup2(ends[1], STDOUT_FILENO) >= 0)
			execl(program, program, "node", "--pool", pool_name, "--keep", "--listen",
			      s->url, strncmp(s->name, "tls:", 4) == 0 ? "--tls-cert" : NULL,
			      shown.node.certificate, "--tls-key", shown.node.key, "--key-file",
			      shown.keys, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	FILE *out = s->pid > 0 ? fdopen(ends[0], "r") : NULL;
	int ready = 0;

	/* Lines about where it listens come first. */
	while (out && !ready && fgets(line, sizeof(line), out))
		ready = strncmp(line, "ready ", 6) == 0;

	if (out)
		fclose(out);
	if (ready)
		return 0;
	fprintf(stderr, "%s node --pool %s --listen %s was not ready\n", program, pool_name,
		s->url);
	served_end(s, SIGKILL);
	return -1;
}

int served_end(struct served *s, int signal_number)
{
	int status = -1;

	if (s->pid > 0) {
		kill(s->pid, signal_number);
		waitpid(s->pid, &status, 0);
	}
	s->pid = 0;
	if (s->path[0])
		unlink(s->path);
	return status;
}
