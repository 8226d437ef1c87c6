/* alias.c: builds alias tables. */
#include "load/alias.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

static uint64_t cut_of(double share)
{
	return share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1.0p64);
}

/*
 * Pair each cell below the average with one above it.  scaled[] becomes what is left of each;
 * stack holds the small cells from its bottom and the large ones from its top.
 */
static void pair_up(struct alias *a, double *scaled, uint32_t *stack)
{
	uint32_t small = 0;
	uint32_t large = a->count;

	for (uint32_t i = 0; i < a->count; i++) {
		if (scaled[i] < 1)
			stack[small++] = i;
		else
			stack[--large] = i;
	}
	while (small > 0 && large < a->count) {
		uint32_t s = stack[--small];
		uint32_t l = stack[large];

		a->cells[s] = (struct alias_cell){cut_of(scaled[s]), l};
		scaled[l] -= 1 - scaled[s];
		if (scaled[l] < 1) {
			large++;
			stack[small++] = l;
		}
	}
	/* What rounding leaves over stands at 1. */
	while (small > 0) {
		small--;
		a->cells[stack[small]] = (struct alias_cell){UINT64_MAX, stack[small]};
	}
	for (; large < a->count; large++)
		a->cells[stack[large]] = (struct alias_cell){UINT64_MAX, stack[large]};
}

int alias_build(struct alias *out, const double *weights, uint32_t count)
{
	struct alias a = {.count = count};
	double *scaled = NULL;
	uint32_t *stack = NULL;
	double sum = 0;
	int status = FORGE_E_NO_MEMORY;

	for (uint32_t i = 0; i < count; i++) {
		if (!isfinite(weights[i]) || weights[i] < 0)
			return FORGE_E_INVAL;
		sum += weights[i];
	}
	if (count == 0 || !(sum > 0) || !isfinite(sum))
		return FORGE_E_INVAL;
	a.cells = calloc(count, sizeof(*a.cells));
	scaled = calloc(count, sizeof(*scaled));
	stack = calloc(count, sizeof(*stack));
	if (a.cells == NULL || scaled == NULL || stack == NULL)
		goto out;
	for (uint32_t i = 0; i < count; i++)
		scaled[i] = weights[i] / sum * count;
	pair_up(&a, scaled, stack);
	*out = a;
	a.cells = NULL;
	status = 0;
out:
	free(a.cells);
	free(scaled);
	free(stack);
	return status;
}

void alias_free(struct alias *a)
{
	free(a->cells);
	*a = (struct alias){0};
}
