/* wake.c: an eventfd and a watch on files. */
#include "client/wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/status.h"
#include "fabric/shm.h"

int wake_open(struct wake *w)
{
	w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->bell < 0)
		return FORGE_E_SYSTEM;
	w->names = -1;
	return 0;
}

void wake_close(struct wake *w)
{
	close(w->bell);
	if (w->names >= 0)
		close(w->names);
}

void wake_ring(const struct wake *w)
{
	eventfd_write(w->bell, 1);
}

int wake_names(struct wake *w)
{
	if (w->names < 0)
		w->names = shm_watch_open();
	return w->names;
}

void wake_wait(const struct wake *w, uint64_t max_ns)
{
	struct pollfd fds[] = {{.fd = w->bell, .events = POLLIN},
			       {.fd = w->names, .events = POLLIN}};
	const struct timespec patience = {.tv_sec = (time_t)(max_ns / 1000000000u),
					  .tv_nsec = (long)(max_ns % 1000000000u)};
	eventfd_t times;

	if (ppoll(fds, ARRAY_COUNT(fds), &patience, NULL) <= 0)
		return;
	/* Before what they are about is looked at, so that what happens after that rings again. */
	eventfd_read(w->bell, &times);
	shm_watch_drain(w->names);
}
