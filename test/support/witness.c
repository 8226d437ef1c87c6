/* witness.c: reading /proc, and asking gdb. */
#include "support/witness.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

#define PATH_BYTES 96u

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* A small file as text, "" if it cannot be read. */
PRINTF_LIKE(3, 4) static void slurp(char *text, size_t text_bytes, const char *format, ...)
{
	char path[PATH_BYTES];
	va_list arguments;
	size_t n = 0;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	FILE *f = fopen(path, "re");

	if (f) {
		n = fread(text, 1, text_bytes - 1, f);
		fclose(f);
	}
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = '\0';
}

/* The number behind "name:" of a /proc file. */
static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void measure(pid_t pid, pid_t tid, struct witness_thread *out)
{
	char text[2048], *end;

	*out = (struct witness_thread){.tid = tid};
	slurp(text, sizeof(text), "/proc/%ld/task/%ld/schedstat", (long)pid, (long)tid);
	out->ran_ns = strtoull(text, &end, 10);
	out->waited_ns = strtoull(end, NULL, 10);
	slurp(text, sizeof(text), "/proc/%ld/task/%ld/status", (long)pid, (long)tid);
	out->slept = field(text, "\nvoluntary_ctxt_switches:");
	out->pushed = field(text, "\nnonvoluntary_ctxt_switches:");
}

/* The threads of a process; how many of tids[WITNESS_THREADS_MAX]. */
static unsigned threads_of(pid_t pid, pid_t *tids)
{
	char path[PATH_BYTES];
	unsigned n = 0;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	DIR *d = opendir(path);

	for (struct dirent *e; d && n < WITNESS_THREADS_MAX && (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			tids[n++] = (pid_t)strtol(e->d_name, NULL, 10);
	if (d)
		closedir(d);
	return n;
}

/* The lines of /proc/stat for the processors, ten numbers each; how many. */
static unsigned read_host(uint64_t ticks[WITNESS_CPUS_MAX][WITNESS_TICKS])
{
	char text[16384], *at = text;
	unsigned cpus = 0;

	slurp(text, sizeof(text), "/proc/stat");
	while ((at = strstr(at, "\ncpu")) && cpus < WITNESS_CPUS_MAX) {
		strtoull(at + strlen("\ncpu"), &at, 10);
		for (unsigned i = 0; i < WITNESS_TICKS; i++)
			ticks[cpus][i] = strtoull(at, &at, 10);
		cpus++;
	}
	return cpus;
}

void witness_begin(struct witness *w)
{
	*w = (struct witness){0};
}

void witness_add(struct witness *w, pid_t pid)
{
	if (pid > 0 && w->pid_count < WITNESS_PIDS_MAX)
		w->pids[w->pid_count++] = pid;
}

void witness_note(struct witness *w)
{
	pid_t tids[WITNESS_THREADS_MAX];

	w->thread_count = 0;
	for (unsigned i = 0; i < w->pid_count; i++) {
		unsigned n = threads_of(w->pids[i], tids);

		for (unsigned k = 0; k < n && w->thread_count < WITNESS_THREADS_MAX; k++)
			measure(w->pids[i], tids[k], &w->threads[w->thread_count++]);
	}
	read_host(w->host_ticks);
	w->noted_ns = now_ns();
}

/* ---- printing ----------------------------------------------------------------------------- */

/* What it had when it was noted; nothing of a thread that is younger. */
static struct witness_thread noted(const struct witness *w, pid_t tid)
{
	for (unsigned i = 0; i < w->thread_count; i++)
		if (w->threads[i].tid == tid)
			return w->threads[i];
	return (struct witness_thread){0};
}

/* The letter of its state, behind the name in parentheses; 0: it is gone. */
static char state_of(pid_t pid, pid_t tid)
{
	char text[512];

	slurp(text, sizeof(text), "/proc/%ld/task/%ld/stat", (long)pid, (long)tid);
	const char *end = strrchr(text, ')');

	return (char)(end && end[1] ? end[2] : '\0');
}

int witness_blames_host(const struct witness *w, pid_t pid)
{
	pid_t tids[WITNESS_THREADS_MAX];
	unsigned n = threads_of(pid, tids);
	uint64_t passed_ns = now_ns() - w->noted_ns;

	for (unsigned k = 0; k < n; k++) {
		struct witness_thread was = noted(w, tids[k]), is;
		char state = state_of(pid, tids[k]);

		measure(pid, tids[k], &is);
		if (state == 'D' || state == 'Z' || state == 'X' ||
		    is.waited_ns - was.waited_ns > passed_ns / 2)
			return 1;
	}
	return 0;
}

static void print_thread(const struct witness *w, pid_t pid, pid_t tid, FILE *out)
{
	struct witness_thread was = noted(w, tid), is;
	char status[2048], wchan[128], syscall[256], stack[1024];
	const char *state = "";

	measure(pid, tid, &is);
	slurp(status, sizeof(status), "/proc/%ld/task/%ld/status", (long)pid, (long)tid);
	slurp(wchan, sizeof(wchan), "/proc/%ld/task/%ld/wchan", (long)pid, (long)tid);
	slurp(syscall, sizeof(syscall), "/proc/%ld/task/%ld/syscall", (long)pid, (long)tid);
	slurp(stack, sizeof(stack), "/proc/%ld/task/%ld/stack", (long)pid, (long)tid);
	if (strstr(status, "\nState:"))
		state = strstr(status, "\nState:") + strlen("\nState:") + 1;
	fprintf(out,
		"  thread %ld: %.*s; ran %.3f s, waited for a processor %.3f s, slept %" PRIu64
		" times, was pushed off %" PRIu64 " times; in %s; system call %s\n",
		(long)tid, (int)strcspn(state, "\n"), state,
		1e-9 * (double)(is.ran_ns - was.ran_ns),
		1e-9 * (double)(is.waited_ns - was.waited_ns), is.slept - was.slept,
		is.pushed - was.pushed, wchan[0] ? wchan : "?", syscall[0] ? syscall : "?");
	if (stack[0] && state[0] == 'D')
		fprintf(out, "  held by the kernel in\n%s\n", stack);
}

/* Does the process have that socket? */
static int has_socket(pid_t pid, uint64_t inode, int *fd)
{
	char path[PATH_BYTES], link[64], wanted[64];
	int found = 0;

	snprintf(wanted, sizeof(wanted), "socket:[%" PRIu64 "]", inode);
	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
	DIR *d = opendir(path);

	for (struct dirent *e; d && !found && (e = readdir(d));) {
		char file[PATH_BYTES + sizeof(e->d_name)];

		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		ssize_t n = readlink(file, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		found = strcmp(link, wanted) == 0;
		*fd = atoi(e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

/* Bytes that lie in the kernel, of each of its TCP connections. */
static void print_connections(pid_t pid, FILE *out)
{
	char path[PATH_BYTES], line[512];

	snprintf(path, sizeof(path), "/proc/%ld/net/tcp", (long)pid);
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		unsigned local, remote, state, unsent, unread, timer;
		uint64_t inode;
		int fd = 0;

		if (sscanf(line, " %*u: %*8x:%x %*8x:%x %x %x:%x %x:%*x %*x %*u %*u %" SCNu64,
			   &local, &remote, &state, &unsent, &unread, &timer, &inode) != 7 ||
		    !has_socket(pid, inode, &fd))
			continue;
		fprintf(out,
			"  descriptor %d: port %u to %u, state %u, unsent or unconfirmed %u bytes, "
			"unread %u, timer %u\n",
			fd, local, remote, state, unsent, unread, timer);
	}
	if (f)
		fclose(f);
}

/* Where each thread is, if there is who can tell. */
static void print_stacks(pid_t pid, FILE *out)
{
	char command[256], line[1024];

	snprintf(command, sizeof(command),
		 "command -v gdb >/dev/null && timeout 60 gdb -nx -batch -p %ld "
		 "-ex 'thread apply all bt' 2>/dev/null </dev/null",
		 (long)pid);
	FILE *f = popen(command, "re");

	while (f && fgets(line, sizeof(line), f))
		if (line[0] == '#' || strncmp(line, "Thread", 6) == 0)
			fprintf(out, "  %s", line);
	if (f)
		pclose(f);
}

static void print_process(const struct witness *w, pid_t pid, FILE *out)
{
	pid_t tids[WITNESS_THREADS_MAX];
	unsigned n = threads_of(pid, tids);
	char name[64];

	slurp(name, sizeof(name), "/proc/%ld/comm", (long)pid);
	fprintf(out, "process %ld (%s)\n", (long)pid, name[0] ? name : "gone");
	for (unsigned k = 0; k < n; k++)
		print_thread(w, pid, tids[k], out);
	print_connections(pid, out);
	print_stacks(pid, out);
}

void witness_print(const struct witness *w, FILE *out)
{
	static const char *const names[WITNESS_TICKS] = {"user",   "nice", "system",  "idle",
							 "iowait", "irq",  "softirq", "steal"};
	uint64_t ticks[WITNESS_CPUS_MAX][WITNESS_TICKS];
	unsigned cpus = read_host(ticks);
	char load[128];

	slurp(load, sizeof(load), "/proc/loadavg");
	fprintf(out, "in the last %.1f s; load %s\n", 1e-9 * (double)(now_ns() - w->noted_ns),
		load);
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		fprintf(out, "processor %u, s:", cpu);
		for (unsigned i = 0; i < WITNESS_TICKS; i++)
			fprintf(out, " %s %.2f", names[i],
				(double)(ticks[cpu][i] - w->host_ticks[cpu][i]) /
				    (double)sysconf(_SC_CLK_TCK));
		fprintf(out, "\n");
	}
	for (unsigned i = 0; i < w->pid_count; i++)
		print_process(w, w->pids[i], out);
	fflush(out);
}
