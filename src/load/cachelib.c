/* cachelib.c: CacheLib's distribution files. */
#include "load/cachelib.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

#define ENTRIES_MAX (1u << 24) /* published files have some ten thousand */

static int json_read(json_t **root, const char *path, struct load_error *error)
{
	json_error_t where;

	if (access(path, R_OK) != 0)
		return load_error_set(error, FORGE_E_SYSTEM, "%s: %s; name a readable file", path,
				      strerror(errno));
	*root = json_load_file(path, 0, &where);
	if (*root == NULL)
		return load_error_set(error, FORGE_E_FORMAT, "%s: line %d: %s; expected JSON", path,
				      where.line, where.text);
	if (!json_is_object(*root)) {
		json_decref(*root);
		return load_error_set(error, FORGE_E_FORMAT, "%s: expected a JSON object", path);
	}
	return 0;
}

/* An array of numbers in [0, max], as doubles to be freed by the caller. */
static int numbers_read(double **out, size_t *count, json_t *root, const char *path,
			const char *field, double max, struct load_error *error)
{
	json_t *array = json_object_get(root, field);
	size_t n = json_array_size(array);
	double *numbers;

	if (!json_is_array(array) || n == 0 || n > ENTRIES_MAX)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: field '%s' must be an array of 1 to %u numbers", path,
				      field, ENTRIES_MAX);
	numbers = calloc(n, sizeof(*numbers));
	if (numbers == NULL)
		return load_error_set(error, FORGE_E_NO_MEMORY, "%s: out of memory", path);
	for (size_t i = 0; i < n; i++) {
		json_t *item = json_array_get(array, i);

		numbers[i] = json_number_value(item);
		if (!json_is_number(item) || !(numbers[i] >= 0 && numbers[i] <= max)) {
			free(numbers);
			return load_error_set(
			    error, FORGE_E_FORMAT,
			    "%s: entry %zu of '%s' must be a number from 0 to %.0f", path, i, field,
			    max);
		}
	}
	*out = numbers;
	*count = n;
	return 0;
}

static int sizes_fill(struct cachelib_sizes *s, const char *path, const double *sizes,
		      size_t size_count, const double *weights, size_t weight_count,
		      struct load_error *error)
{
	bool ranges = size_count == weight_count + 1;

	if (size_count != weight_count && !ranges)
		return load_error_set(
		    error, FORGE_E_FORMAT,
		    "%s: %zu sizes and %zu weights; expected as many, or one size more", path,
		    size_count, weight_count);
	s->low = calloc(weight_count, sizeof(*s->low));
	s->high = calloc(weight_count, sizeof(*s->high));
	if (s->low == NULL || s->high == NULL)
		return load_error_set(error, FORGE_E_NO_MEMORY, "%s: out of memory", path);
	for (size_t i = 0; i < weight_count; i++) {
		s->low[i] = (uint32_t)sizes[i];
		s->high[i] =
		    ranges && sizes[i + 1] > sizes[i] ? (uint32_t)sizes[i + 1] - 1 : s->low[i];
		if (ranges && sizes[i + 1] < sizes[i])
			return load_error_set(error, FORGE_E_FORMAT,
					      "%s: valSizeRange must not decrease (entry %zu)",
					      path, i + 1);
	}
	if (alias_build(&s->choice, weights, (uint32_t)weight_count) != 0)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: valSizeRangeProbability needs a weight above 0", path);
	return 0;
}

int cachelib_sizes_read(struct cachelib_sizes *out, const char *path, struct load_error *error)
{
	struct cachelib_sizes s = {0};
	json_t *root = NULL;
	double *sizes = NULL;
	double *weights = NULL;
	size_t size_count = 0;
	size_t weight_count = 0;
	int status = json_read(&root, path, error);

	if (status != 0)
		return status;
	status = numbers_read(&sizes, &size_count, root, path, "valSizeRange", UINT32_MAX, error);
	if (status == 0)
		status = numbers_read(&weights, &weight_count, root, path,
				      "valSizeRangeProbability", 1e300, error);
	if (status == 0)
		status = sizes_fill(&s, path, sizes, size_count, weights, weight_count, error);
	if (status == 0)
		*out = s;
	else
		cachelib_sizes_free(&s);
	free(sizes);
	free(weights);
	json_decref(root);
	return status;
}

static int popularity_fill(struct cachelib_popularity *p, const char *path, const double *buckets,
			   const double *weights, size_t count, struct load_error *error)
{
	p->first = calloc(count + 1, sizeof(*p->first));
	if (p->first == NULL)
		return load_error_set(error, FORGE_E_NO_MEMORY, "%s: out of memory", path);
	for (size_t i = 0; i < count; i++)
		p->first[i + 1] = p->first[i] + buckets[i];
	p->key_count = p->first[count];
	if (p->key_count < 1 || p->key_count > 0x1.0p53)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: popularityBuckets must name between 1 and 2^53 keys",
				      path);
	if (alias_build(&p->choice, weights, (uint32_t)count) != 0)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: popularityWeights needs a weight above 0", path);
	return 0;
}

int cachelib_popularity_read(struct cachelib_popularity *out, const char *path,
			     struct load_error *error)
{
	struct cachelib_popularity p = {0};
	json_t *root = NULL;
	double *buckets = NULL;
	double *weights = NULL;
	size_t bucket_count = 0;
	size_t weight_count = 0;
	int status = json_read(&root, path, error);

	if (status != 0)
		return status;
	p.one_hit_share = json_number_value(json_object_get(root, "oneHits"));
	if (!(p.one_hit_share >= 0 && p.one_hit_share < 1))
		status = load_error_set(error, FORGE_E_FORMAT,
					"%s: 'oneHits' must be at least 0 and below 1", path);
	if (status == 0)
		status = numbers_read(&buckets, &bucket_count, root, path, "popularityBuckets",
				      1e15, error);
	if (status == 0)
		status = numbers_read(&weights, &weight_count, root, path, "popularityWeights",
				      1e300, error);
	if (status == 0 && bucket_count != weight_count)
		status = load_error_set(error, FORGE_E_FORMAT,
					"%s: %zu popularityBuckets but %zu popularityWeights", path,
					bucket_count, weight_count);
	if (status == 0)
		status = popularity_fill(&p, path, buckets, weights, bucket_count, error);
	if (status == 0)
		*out = p;
	else
		cachelib_popularity_free(&p);
	free(buckets);
	free(weights);
	json_decref(root);
	return status;
}

int cachelib_mix_read(struct cachelib_mix *out, const char *path, struct load_error *error)
{
	struct cachelib_mix mix = {.get = 1};
	json_t *root = NULL;
	json_t *config;
	int status;

	if (access(path, F_OK) != 0) {
		*out = mix;
		return 0;
	}
	status = json_read(&root, path, error);
	if (status != 0)
		return status;
	config = json_object_get(root, "test_config");
	mix.get = json_number_value(json_object_get(config, "getRatio"));
	mix.set = json_number_value(json_object_get(config, "setRatio"));
	mix.del = json_number_value(json_object_get(config, "delRatio"));
	json_decref(root);
	if (!(mix.get >= 0 && mix.set >= 0 && mix.del >= 0 && mix.get + mix.set + mix.del > 0))
		return load_error_set(
		    error, FORGE_E_FORMAT,
		    "%s: test_config needs getRatio, setRatio or delRatio, none negative", path);
	*out = mix;
	return 0;
}

void cachelib_sizes_free(struct cachelib_sizes *s)
{
	alias_free(&s->choice);
	free(s->low);
	free(s->high);
	*s = (struct cachelib_sizes){0};
}

void cachelib_popularity_free(struct cachelib_popularity *p)
{
	alias_free(&p->choice);
	free(p->first);
	*p = (struct cachelib_popularity){0};
}
