/* trace_load.c: whole traces: their footprint, and their requests in shared memory. */
#include "load/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/status.h"
#include "load/idmap.h"

struct scan {
	struct idmap map;
	uint32_t *checks; /* by dense id */
	uint64_t checks_room;
	struct trace_footprint footprint;
	/* Kept only by trace_load(): */
	bool keep;
	bool has_sizes;
	bool has_ops;
	uint64_t room;
	uint32_t *ids;
	uint32_t *sizes;
	uint8_t *ops;
};

static void scan_free(struct scan *s)
{
	idmap_free(&s->map);
	free(s->checks);
	free(s->ids);
	free(s->sizes);
	free(s->ops);
}

static int array_grow(void *array, uint64_t room, size_t item_bytes)
{
	void **a = array;
	void *grown = reallocarray(*a, room, item_bytes);

	if (grown == NULL)
		return FORGE_E_NO_MEMORY;
	*a = grown;
	return 0;
}

static int keep(struct scan *s, const struct trace_record *r, uint32_t id)
{
	uint64_t at = s->footprint.requests;

	if (at == s->room) {
		s->room = s->room == 0 ? 65536 : s->room * 2;
		if (array_grow(&s->ids, s->room, sizeof(*s->ids)) != 0 ||
		    (s->has_sizes && array_grow(&s->sizes, s->room, sizeof(*s->sizes)) != 0) ||
		    (s->has_ops && array_grow(&s->ops, s->room, sizeof(*s->ops)) != 0))
			return FORGE_E_NO_MEMORY;
	}
	s->ids[at] = id;
	if (s->has_sizes)
		s->sizes[at] = (uint32_t)min_u64(r->size, UINT32_MAX);
	if (s->has_ops)
		s->ops[at] = (uint8_t)r->op;
	return 0;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static int count(struct scan *s, const struct trace_record *r)
{
	struct trace_footprint *f = &s->footprint;
	uint32_t id;
	int status = idmap_add(&s->map, r->id, &id);

	if (status < 0)
		return status;
	if (id >= s->checks_room) {
		s->checks_room = s->map.room;
		if (array_grow(&s->checks, s->checks_room, sizeof(*s->checks)) != 0)
			return FORGE_E_NO_MEMORY;
	}
	if (status == IDMAP_NEW) {
		s->checks[id] = r->check;
		f->bytes = add_saturated(f->bytes, r->size);
	} else if (s->checks[id] != r->check) {
		f->collisions++;
	}
	if (s->keep && keep(s, r, id) != 0)
		return FORGE_E_NO_MEMORY;
	f->requests++;
	f->request_bytes = add_saturated(f->request_bytes, r->size);
	f->size_max = max_u64(f->size_max, r->size);
	f->ops[r->op]++;
	return 0;
}

static int scan_run(struct scan *s, const char *path, const struct trace_options *options,
		    struct load_error *error)
{
	struct trace *t;
	struct trace_record r;
	int status = trace_file_open(&t, path, options, error);
	int result;

	if (status != 0)
		return status;
	s->has_sizes = trace_has_sizes(t);
	s->has_ops = trace_has_ops(t);
	while ((result = trace_file_next(t, &r, error)) == TRACE_RECORD) {
		result = count(s, &r);
		if (result != 0) {
			load_error_set(
			    error, result,
			    "%s: out of memory after %llu requests of %u ids; replay a part "
			    "of the trace",
			    path, (unsigned long long)s->footprint.requests, s->map.count);
			break;
		}
	}
	trace_file_close(t);
	s->footprint.distinct = s->map.count;
	return result;
}

int trace_footprint(const char *path, const struct trace_options *options,
		    struct trace_footprint *out, struct load_error *error)
{
	struct scan s = {.keep = false};
	int status = scan_run(&s, path, options, error);

	if (status == 0)
		*out = s.footprint;
	scan_free(&s);
	return status;
}

/* Lay the arrays out in one mapping, widest items first so that each is aligned. */
static int publish(struct trace_data *d, const struct scan *s)
{
	uint64_t keys_bytes = (uint64_t)s->map.count * sizeof(uint64_t);
	uint64_t ids_bytes = s->footprint.requests * sizeof(uint32_t);
	uint64_t sizes_bytes = s->has_sizes ? ids_bytes : 0;
	uint64_t ops_bytes = s->has_ops ? s->footprint.requests : 0;
	uint64_t bytes = keys_bytes + ids_bytes + sizes_bytes + ops_bytes;
	char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return FORGE_E_NO_MEMORY;
	memcpy(map, s->map.ids, keys_bytes);
	memcpy(map + keys_bytes, s->ids, ids_bytes);
	if (s->has_sizes)
		memcpy(map + keys_bytes + ids_bytes, s->sizes, sizes_bytes);
	if (s->has_ops)
		memcpy(map + keys_bytes + ids_bytes + sizes_bytes, s->ops, ops_bytes);
	*d = (struct trace_data){
	    .count = s->footprint.requests,
	    .distinct = s->map.count,
	    .keys = (void *)map,
	    .ids = (void *)(map + keys_bytes),
	    .sizes = s->has_sizes ? (void *)(map + keys_bytes + ids_bytes) : NULL,
	    .ops = s->has_ops ? (void *)(map + keys_bytes + ids_bytes + sizes_bytes) : NULL,
	    .footprint = s->footprint,
	    .map = map,
	    .map_bytes = bytes,
	};
	/* From here on a stray store is a fault, not a changed trace. */
	mprotect(map, bytes, PROT_READ);
	return 0;
}

int trace_load(struct trace_data *out, const char *path, const struct trace_options *options,
	       struct load_error *error)
{
	struct scan s = {.keep = true};
	int status = scan_run(&s, path, options, error);

	if (status == 0 && s.footprint.requests == 0)
		status = load_error_set(error, FORGE_E_FORMAT,
					"%s: holds no request; name a trace that has some", path);
	if (status == 0) {
		status = publish(out, &s);
		if (status != 0)
			load_error_set(error, status, "%s: out of memory for the whole trace",
				       path);
	}
	scan_free(&s);
	return status;
}

void trace_unload(struct trace_data *d)
{
	if (d->map != NULL)
		munmap(d->map, d->map_bytes);
	*d = (struct trace_data){0};
}
