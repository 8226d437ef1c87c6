/* workload_spec.c: parses the text of a workload; the grammar is in workload.h. */
#include "load/workload.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "base/status.h"

#define TEXT_MAX      (WORKLOAD_NAME_MAX - 1)
#define THETA_MAX     20.0
#define SCAN_GETS_MAX 1000000
#define SIZE_MAX_TEXT (UINT32_MAX - 1)

struct family {
	const char *name;
	enum key_choice keys;
	bool gray; /* wants the sampler of Gray et al. where theta permits */
	double update, insert, rmw, scan;
	const char *sentence;
};

static const struct family families[] = {
    {"ycsb-a", KEYS_ZIPF_SCRAMBLED, true, .5, 0, 0, 0, "50 % get, 50 % update, scrambled zipf"},
    {"ycsb-b", KEYS_ZIPF_SCRAMBLED, true, .05, 0, 0, 0, "95 % get, 5 % update, scrambled zipf"},
    {"ycsb-c", KEYS_ZIPF_SCRAMBLED, true, 0, 0, 0, 0, "100 % get, scrambled zipf"},
    {"ycsb-d", KEYS_LATEST, true, 0, .05, 0, 0, "95 % get of recent keys, 5 % insert"},
    {"ycsb-e", KEYS_ZIPF_SCRAMBLED, true, 0, .05, 0, .95, "95 % scan as gets, 5 % insert"},
    {"ycsb-f", KEYS_ZIPF_SCRAMBLED, true, 0, 0, .5, 0, "50 % get, 50 % read-modify-write"},
    {"uniform", KEYS_UNIFORM, false, 0, 0, 0, 0, "100 % get, every key alike"},
    {"zipf", KEYS_ZIPF, false, 0, 0, 0, 0, "100 % get, zipf:THETA, any theta from 0 to 20"},
    {"scan", KEYS_LOOP, false, 0, 0, 0, 0, "100 % get, 0, 1, 2, ... and again"},
    {"hotspot", KEYS_HOTSPOT, false, 0, 0, 0, 0, "100 % get, a hot range that moves"},
    {"cachelib", KEYS_POPULARITY, false, 0, 0, 0, 0,
     "cachelib:PREFIX, mix and popularity of PREFIX.*.json"},
};

enum option_type {
	OPTION_COUNT, /* u64 with k, M, G */
	OPTION_U32,
	OPTION_REAL,
	OPTION_BOOL,  /* 0 or 1 */
	OPTION_SHARE, /* of operations: index into the parser's shares */
	OPTION_SIZES,
};

/* The parser's shares: the operations and, last, the scan. */
#define SHARE_SCAN  LOAD_OP_KINDS
#define SHARE_COUNT (LOAD_OP_KINDS + 1)

/* Counts stop at 2^53, because the samplers compute in doubles. */
struct option {
	const char *name;
	enum option_type type;
	size_t offset; /* in struct workload_spec, or the index of the share */
	double min, max;
	const char *sentence;
};

#define FIELD(f) offsetof(struct workload_spec, f)

static const struct option options[] = {
    {"keys", OPTION_COUNT, FIELD(key_count), 1, 0x1.0p53, "keys that exist at the start (1M)"},
    {"theta", OPTION_REAL, FIELD(theta), 0, THETA_MAX, "skew of zipf and latest (0.99)"},
    {"exact", OPTION_BOOL, FIELD(exact), 0, 1, "1: ycsb families with the exact sampler (0)"},
    {"window", OPTION_COUNT, FIELD(latest_window), 1, 0x1.0p53,
     "latest: newest keys drawn from (all)"},
    {"get", OPTION_SHARE, LOAD_GET, 0, 1, "share of gets (what the others leave)"},
    {"set", OPTION_SHARE, LOAD_SET, 0, 1, "share of sets"},
    {"update", OPTION_SHARE, LOAD_UPDATE, 0, 1, "share of updates"},
    {"insert", OPTION_SHARE, LOAD_INSERT, 0, 1, "share of inserts of new keys"},
    {"rmw", OPTION_SHARE, LOAD_RMW, 0, 1, "share of read-modify-writes"},
    {"delete", OPTION_SHARE, LOAD_DELETE, 0, 1, "share of deletes"},
    {"scan", OPTION_SHARE, SHARE_SCAN, 0, 1, "share of scans, expanded into gets"},
    {"scanlen", OPTION_U32, FIELD(scan_gets_max), 1, SCAN_GETS_MAX, "longest scan (100)"},
    {"hot", OPTION_REAL, FIELD(hot_share), 0, 1, "hotspot: share of hot keys (0.1)"},
    {"hotops", OPTION_REAL, FIELD(hot_op_share), 0, 1, "hotspot: share of ops there (0.9)"},
    {"shift", OPTION_COUNT, FIELD(shift_ops), 1, 0x1.0p53, "hotspot: moves after N ops (1M)"},
    {"onehit", OPTION_REAL, FIELD(one_hit_share), 0, 0.999999, "share of keys asked for once"},
    {"sizes", OPTION_SIZES, 0, 0, 0, "N, N-M, cachelib:FILE, each:... bytes (256)"},
};

struct parser {
	struct workload_spec *spec;
	const struct family *family;
	double share[SHARE_COUNT];
	bool share_given[SHARE_COUNT];
	bool sizes_given;
	struct load_error *error;
};

/* A decimal count with k, M or G behind it: powers of 1000, because keys are counted. */
static bool count_parse(const char *text, uint64_t *out)
{
	unsigned long long value;
	uint64_t unit = 1;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end == 'k')
		unit = 1000;
	else if (*end == 'M')
		unit = 1000000;
	else if (*end == 'G')
		unit = 1000000000;
	if (unit > 1)
		end++;
	if (errno != 0 || *end != '\0')
		return false;
	return !__builtin_mul_overflow((uint64_t)value, unit, out);
}

static int sizes_parse(struct parser *p, const char *text)
{
	struct size_spec s = {0};
	const char *body = text;
	const char *dash;
	char low_text[32];
	uint64_t low, high;
	int status;

	if (strncmp(body, "each:", 5) == 0) {
		s.per_op = true;
		body += 5;
	}
	if (strncmp(body, "cachelib:", 9) == 0) {
		status = cachelib_sizes_read(&s.table, body + 9, p->error);
		if (status != 0)
			return status;
		s.choice = SIZES_TABLE;
		s.bytes_min = UINT32_MAX;
		for (uint32_t i = 0; i < s.table.choice.count; i++) {
			s.bytes_min = (uint32_t)min_u64(s.bytes_min, s.table.low[i]);
			s.bytes_max = (uint32_t)max_u64(s.bytes_max, s.table.high[i]);
		}
		p->spec->sizes = s;
		return 0;
	}
	dash = strchr(body, '-');
	if (dash == NULL) {
		if (parse_bytes(body, &low) != 0)
			goto malformed;
		high = low;
	} else {
		if ((size_t)(dash - body) >= sizeof(low_text))
			goto malformed;
		memcpy(low_text, body, (size_t)(dash - body));
		low_text[dash - body] = '\0';
		if (parse_bytes(low_text, &low) != 0 || parse_bytes(dash + 1, &high) != 0)
			goto malformed;
	}
	if (low > high || high > SIZE_MAX_TEXT)
		goto malformed;
	s.bytes_min = (uint32_t)low;
	s.bytes_max = (uint32_t)high;
	p->spec->sizes = s;
	return 0;

malformed:
	return load_error_set(p->error, FORGE_E_INVAL,
			      "sizes '%s': write a number of bytes (256), a range (64-1024), or "
			      "cachelib:FILE; 'each:' before it draws anew for each operation",
			      text);
}

static int option_value(struct parser *p, const struct option *o, const char *value)
{
	void *field = (char *)p->spec + o->offset;
	uint64_t count = 0;
	double real;

	if (o->type == OPTION_SIZES) {
		if (p->sizes_given)
			cachelib_sizes_free(&p->spec->sizes.table);
		p->sizes_given = true;
		return sizes_parse(p, value);
	}
	if (o->type == OPTION_COUNT || o->type == OPTION_U32) {
		if (!count_parse(value, &count) || (double)count < o->min || (double)count > o->max)
			return load_error_set(
			    p->error, FORGE_E_INVAL,
			    "%s=%s: write a whole number from %.0f to %.0f (k, M, G "
			    "allowed)",
			    o->name, value, o->min, o->max);
		if (o->type == OPTION_COUNT)
			*(uint64_t *)field = count;
		else
			*(uint32_t *)field = (uint32_t)count;
		return 0;
	}
	if (parse_double(value, &real) != 0 || real < o->min || real > o->max)
		return load_error_set(p->error, FORGE_E_INVAL,
				      "%s=%s: write a number from %g to %g", o->name, value, o->min,
				      o->max);
	if (o->type == OPTION_SHARE) {
		p->share[o->offset] = real;
		p->share_given[o->offset] = true;
		return 0;
	}
	if (o->type == OPTION_BOOL) {
		if (real != 0 && real != 1)
			return load_error_set(p->error, FORGE_E_INVAL, "%s=%s: write 0 or 1",
					      o->name, value);
		*(bool *)field = real == 1;
		return 0;
	}
	*(double *)field = real;
	return 0;
}

static int option_parse(struct parser *p, char *text)
{
	char *equals = strchr(text, '=');
	char known[256];
	size_t at = 0;

	if (equals != NULL) {
		*equals = '\0';
		for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
			if (strcmp(options[i].name, text) == 0)
				return option_value(p, &options[i], equals + 1);
		}
	}
	for (size_t i = 0; i < ARRAY_COUNT(options); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, " %s=", options[i].name);
	return load_error_set(p->error, FORGE_E_INVAL, "workload option '%s' is not known; use%s",
			      text, known);
}

/* What stands bare behind the colon: the theta of zipf, the prefix of cachelib. */
static int bare_parse(struct parser *p, const char *text)
{
	const char *suffixes[] = {".pop.json", ".sizes.json", ".config.json"};
	char path[WORKLOAD_NAME_MAX + 16];
	struct cachelib_mix mix;
	double theta;
	double sum;
	int status;

	if (p->family->keys == KEYS_ZIPF) {
		if (parse_double(text, &theta) != 0 || theta < 0 || theta > THETA_MAX)
			return load_error_set(p->error, FORGE_E_INVAL,
					      "zipf:%s: write a theta from 0 to %g, as in zipf:0.9",
					      text, THETA_MAX);
		p->spec->theta = theta;
		return 0;
	}
	snprintf(path, sizeof(path), "%s%s", text, suffixes[0]);
	status = cachelib_popularity_read(&p->spec->popularity, path, p->error);
	if (status != 0)
		return status;
	p->spec->one_hit_share = p->spec->popularity.one_hit_share;
	p->spec->key_count = (uint64_t)p->spec->popularity.key_count;
	snprintf(path, sizeof(path), "%s%s", text, suffixes[2]);
	status = cachelib_mix_read(&mix, path, p->error);
	if (status != 0)
		return status;
	sum = mix.get + mix.set + mix.del;
	p->share[LOAD_SET] = mix.set / sum;
	p->share[LOAD_DELETE] = mix.del / sum;
	snprintf(path, sizeof(path), "cachelib:%s%s", text, suffixes[1]);
	if (access(path + strlen("cachelib:"), F_OK) != 0)
		return 0; /* a popularity alone: sizes as by default */
	p->sizes_given = true;
	return sizes_parse(p, path);
}

/* Get takes what the named shares leave, unless it was named too. */
static int shares_settle(struct parser *p)
{
	double sum = 0;

	for (unsigned i = 0; i < SHARE_COUNT; i++)
		sum += i == LOAD_GET ? 0 : p->share[i];
	if (!p->share_given[LOAD_GET])
		p->share[LOAD_GET] = 1 - sum;
	/* Decimal shares that sum to 1 on paper may miss it by a few ulps. */
	if (fabs(p->share[LOAD_GET]) < 1e-9)
		p->share[LOAD_GET] = 0;
	sum += p->share[LOAD_GET];
	if (p->share[LOAD_GET] < 0 || fabs(sum - 1) > 1e-9)
		return load_error_set(
		    p->error, FORGE_E_INVAL,
		    "the shares of operations sum to %g; make them sum to 1, or leave "
		    "out get=, which then takes the rest",
		    p->share[LOAD_GET] < 0 ? 1 - p->share[LOAD_GET] : sum);
	memcpy(p->spec->share, p->share, sizeof(p->spec->share));
	p->spec->scan_share = p->share[SHARE_SCAN];
	return 0;
}

static int family_find(struct parser *p, const char *name)
{
	char known[256];
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
		if (strcmp(families[i].name, name) == 0) {
			p->family = &families[i];
			return 0;
		}
		at += (size_t)snprintf(known + at, sizeof(known) - at, " %s", families[i].name);
	}
	return load_error_set(p->error, FORGE_E_INVAL, "workload '%s' is not known; use one of%s",
			      name, known);
}

static int options_parse(struct parser *p, char *rest)
{
	bool wants_bare = p->family->keys == KEYS_ZIPF || p->family->keys == KEYS_POPULARITY;
	bool had_bare = false;
	int status = 0;
	char *item;

	while (status == 0 && (item = strsep(&rest, ",")) != NULL) {
		if (wants_bare && !had_bare && item[0] != '\0' && strchr(item, '=') == NULL) {
			had_bare = true;
			status = bare_parse(p, item);
		} else {
			status = option_parse(p, item);
		}
	}
	if (status == 0 && p->family->keys == KEYS_POPULARITY && !had_bare)
		status = load_error_set(p->error, FORGE_E_INVAL,
					"cachelib: name the files' prefix first, as in "
					"cachelib:dir/cdn for dir/cdn.pop.json");
	return status;
}

int workload_parse(struct workload_spec *out, const char *text, struct load_error *error)
{
	struct workload_spec spec = {
	    .key_count = 1000000,
	    .theta = 0.99,
	    .scan_gets_max = 100,
	    .hot_share = 0.1,
	    .hot_op_share = 0.9,
	    .shift_ops = 1000000,
	    .latest_window = UINT64_MAX,
	    .sizes = {.choice = SIZES_UNIFORM, .bytes_min = 256, .bytes_max = 256},
	};
	struct parser p = {.spec = &spec, .error = error};
	char copy[WORKLOAD_NAME_MAX];
	char *rest = copy;
	char *name;
	int status;

	if (strlen(text) > TEXT_MAX)
		return load_error_set(error, FORGE_E_INVAL,
				      "a workload text has at most %d characters", TEXT_MAX);
	strcpy(spec.name, text);
	strcpy(copy, text);
	name = strsep(&rest, ":");
	status = family_find(&p, name);
	if (status != 0)
		return status;
	spec.keys = p.family->keys;
	p.share[LOAD_UPDATE] = p.family->update;
	p.share[LOAD_INSERT] = p.family->insert;
	p.share[LOAD_RMW] = p.family->rmw;
	p.share[SHARE_SCAN] = p.family->scan;
	if (rest != NULL || spec.keys == KEYS_POPULARITY)
		status = options_parse(&p, rest);
	if (status == 0)
		status = shares_settle(&p);
	/* theta may have been given last, so the sampler is chosen here. */
	spec.gray = p.family->gray && !spec.exact && spec.theta > 0 && spec.theta < 1;
	if (status == 0)
		*out = spec;
	else
		workload_spec_free(&spec);
	return status;
}

void workload_spec_free(struct workload_spec *spec)
{
	cachelib_sizes_free(&spec->sizes.table);
	cachelib_popularity_free(&spec->popularity);
}

const char *workload_help(void)
{
	static char text[4096];
	size_t at = 0;

	if (text[0] != '\0')
		return text;
	for (size_t i = 0; i < ARRAY_COUNT(families); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "  %-10s %s\n",
				       families[i].name, families[i].sentence);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "options, FAMILY:OPTION,OPTION...\n");
	for (size_t i = 0; i < ARRAY_COUNT(options); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "  %-9s= %s\n",
				       options[i].name, options[i].sentence);
	return text;
}
